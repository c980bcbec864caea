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
enum { TILE = 32, AT_ONCE = WIDTH * ABREAST };  // rows that stay in a core's nearest cache; columns of a block

// gradient (outputs, AT_ONCE) += sums (rows, outputs) transposed times inputs (rows, AT_ONCE)
auto add_block = [&](auto outputs, const float* sums, const float* inputs, int rows, float* gradient) {
    enum { OUTPUTS = decltype(outputs)::count };
    Vector sum[OUTPUTS][ABREAST];
    for (int o = 0; o < OUTPUTS; ++o)
        for (int j = 0; j < ABREAST; ++j) sum[o][j] = *(const Vector*)(gradient + (long)o * size.columns + WIDTH * j);
    for (int row = 0; row < rows; ++row, sums += size.outputs, inputs += size.stride)
        for (int o = 0; o < OUTPUTS; ++o)
            for (int j = 0; j < ABREAST; ++j)
                sum[o][j] = multiply_add((Vector)(sums[o]), *(const Vector*)(inputs + WIDTH * j), sum[o][j]);
    for (int o = 0; o < OUTPUTS; ++o)
        for (int j = 0; j < ABREAST; ++j) *(Vector*)(gradient + (long)o * size.columns + WIDTH * j) = sum[o][j];
};

// One thread's share of the outputs.
auto take = [&](int part) {
    const int from = (int)((long)size.outputs * part / size.parts), to = (int)((long)size.outputs * (part + 1) / size.parts);
    for (int row = 0; row < size.rows; row += TILE) {
        const int rows = size.rows - row < TILE ? size.rows - row : TILE;
        const float *sums = call.sums + (long)row * size.outputs, *inputs = call.inputs + (long)row * size.stride;
        for (int column = 0; column < size.columns; column += AT_ONCE) {
            int output = from;
            auto add = [&](auto outputs) {
                float* gradient = call.gradient + (long)output * size.columns + column;
                add_block(outputs, sums + output, inputs + column, rows, gradient);
                output += decltype(outputs)::count;
            };
            while (output + 6 <= to) add(Six());
            while (output + 2 <= to) add(Two());
            while (output < to) add(One());
        }
    }
};
if (size.parts == 1)
    take(0);
else
    share_out(take, size.parts, call.together, call.member, call.members);
