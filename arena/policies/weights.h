// Gradients of weights, on some cores: the body of a function, read behind lanes.h.
//
// Its arguments are `sizes` and `addresses`, as arena/policies/weights.py fills them. What weights were multiplied with
// and the loss's gradient of the sums, decision by decision, are multiplied and added to the gradient of the weights.
// Threads of the OpenMP that torch has loaded share the outputs; every sum runs in the order of the decisions.

struct Call {
    const float* sums;    // (N, outputs): the loss's gradient of the sums
    const float* inputs;  // (N, stride): their first columns were multiplied
    float* gradient;      // (outputs, columns): added to
    Together* together;
    Member *member, *members;
};
struct Sizes { int rows, outputs, columns, stride, parts; };
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
enum { TILE = 32 };  // rows that stay in a core's nearest cache

// gradient (outputs, columns) += sums (rows, outputs) transposed times inputs (rows, columns), some registers wide
auto add_block = [&](auto outputs, auto registers, const float* sums, const float* inputs, int rows, float* gradient) {
    enum { OUTPUTS = decltype(outputs)::count, REGISTERS = decltype(registers)::count };
    auto place = [&](int o, int j) -> Vector& { return *(Vector*)(gradient + (long)o * size.columns + WIDTH * j); };
    Vector sum[OUTPUTS][REGISTERS];
    for (int o = 0; o < OUTPUTS; ++o)
        for (int j = 0; j < REGISTERS; ++j) sum[o][j] = place(o, j);
    for (int row = 0; row < rows; ++row, sums += size.outputs, inputs += size.stride)
        for (int o = 0; o < OUTPUTS; ++o)
            for (int j = 0; j < REGISTERS; ++j)
                sum[o][j] = multiply_add((Vector)(sums[o]), *(const Vector*)(inputs + WIDTH * j), sum[o][j]);
    for (int o = 0; o < OUTPUTS; ++o)
        for (int j = 0; j < REGISTERS; ++j) place(o, j) = sum[o][j];
};
struct Abreast { enum { count = ABREAST }; };
// What is left of the columns, fewer than a register has.
auto add_rest = [&](const float* sums, const float* inputs, int rows, float* gradient, int columns) {
    for (int row = 0; row < rows; ++row, sums += size.outputs, inputs += size.stride)
        for (int column = 0; column < columns; ++column) gradient[column] += *sums * inputs[column];
};

// One thread's share of the outputs.
auto take = [&](int part) {
    const int from = (int)((long)size.outputs * part / size.parts);
    const int to = (int)((long)size.outputs * (part + 1) / size.parts);
    for (int row = 0; row < size.rows; row += TILE) {
        const int rows = size.rows - row < TILE ? size.rows - row : TILE;
        const float *sums = call.sums + (long)row * size.outputs, *inputs = call.inputs + (long)row * size.stride;
        int column = 0;
        auto at = [&](int output) { return call.gradient + (long)output * size.columns + column; };
        auto add_columns = [&](auto registers) {
            int output = from;
            auto add = [&](auto outputs) {
                add_block(outputs, registers, sums + output, inputs + column, rows, at(output));
                output += decltype(outputs)::count;
            };
            while (output + 6 <= to) add(Six());
            while (output < to) add(One());
            column += WIDTH * decltype(registers)::count;
        };
        while (column + WIDTH * ABREAST <= size.columns) add_columns(Abreast());
        while (column + WIDTH <= size.columns) add_columns(One());
        for (int output = from; column < size.columns && output < to; ++output)
            add_rest(sums + output, inputs + column, rows, at(output), size.columns - column);
    }
};
if (size.parts == 1)
    take(0);
else
    share_out(take, size.parts, call.together, call.member, call.members);
