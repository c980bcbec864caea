// Runs of decisions through an LSTM, forward or backward in time, on some cores: the body of a function.
//
// Its arguments are `sizes` and `addresses`, as arena/policies/scan.py fills them. Decisions lie step by step: those of
// step t are rows first[t] to first[t + 1], one for every run that is longer than t, and the longest runs come first. So
// run r's decision at step t is row first[t] + r. Threads of the OpenMP that torch has loaded share the runs; none touches
// another's rows.
//
// Columns of gates lie in panels of 64: enter, forget, new and leave of 16 units side by side. Weights lie in panels of 64
// columns, a row for every input, so that the sums of BLOCK rows x 64 columns stay in registers while the panel streams
// by. Every sum runs in the order of its inputs: what a run gets does not hang on who shares its block.
//
// With half precision all factors are bfloat16 and all sums float: a row of a panel then holds two inputs of every
// column side by side, and gradients leave as bfloat16.

#if defined(__AVX512BF16__)
typedef __bf16 Half;
typedef Half Pairs __attribute__((ext_vector_type(2 * LANES), aligned(2), may_alias));
typedef Half Halves __attribute__((ext_vector_type(LANES), aligned(2), may_alias));
#endif

struct Call {
    const int* first;      // (steps + 1)
    const float* weights;  // forward: panels of gates (inputs, 64); backward: panels of units (4 units, 64)
    float* gates;          // (N, 4 units): what the gates let through
    float* inputs;         // (N, inputs): features of each decision, then the hidden state before it
    float* cells;          // (N, units): cell after each decision
    const float* cell;     // (S, units): cell before each run
    float* output;         // (N, units): hidden state after each decision; backward: the loss's gradient with respect to it
    float* gradient;       // (N, 4 units): backward: the loss's gradient with respect to the gates' sums
    float* carried;        // (S, 2 units): backward, zeros: gradients of hidden and cell on their way back
    const float* bias;     // (4 units): forward
    const int* bounds;     // (parts + 1): runs at which to part them
    Together* together;
    Member *member, *members;
};
enum Direction { FORWARD, BACKWARD, ASK };
struct Sizes { int direction, half, units, inputs, steps, parts; };
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
if (size.direction == ASK) {  // can half precision be had?
#if defined(__AVX512BF16__)
    sizes.data[0] = 1;
#else
    sizes.data[0] = 0;
#endif
    return;
}
const int units = size.units, gate_columns = 4 * size.units;

// One more input, or pair of inputs, of a block's sums.
auto fold = [&](const float* x, const float* weights, Vector sum) {
    return multiply_add((Vector)(*x), *(const Vector*)weights, sum);
};
#if defined(__AVX512BF16__)
auto fold_pair = [&](const Half* x, const Half* weights, Vector sum) {
    typedef int Entry __attribute__((aligned(2), may_alias));
    const Whole pair = (Whole)(*(const Entry*)x);
    return __builtin_ia32_dpbf16ps_512(sum, __builtin_bit_cast(Pairs, pair), *(const Pairs*)weights);
};
#endif
struct Sums { float* into; int stride; const float* bias; };  // they begin at the bias, or where there is none at what they are
// sums (rows, 64), `stride` apart, += x (rows, inputs) times a panel of weights (inputs, 64), `abreast` inputs at once
auto add_block = [&](auto rows, auto fold, int abreast, auto* x, int inputs, auto* panel, int first, Sums sums) {
    enum { ROWS = decltype(rows)::count };
    float* into = sums.into + (long)first * sums.stride;
    const float* begin = sums.bias ? sums.bias : into;
    const int apart = sums.bias ? 0 : sums.stride;
    for (int column = 0; column < PANEL; column += WIDTH * ABREAST) {
        Vector sum[ROWS][ABREAST];
        for (int r = 0; r < ROWS; ++r)
            for (int j = 0; j < ABREAST; ++j) sum[r][j] = *(const Vector*)(begin + r * apart + column + WIDTH * j);
        for (int k = 0; k < inputs; k += abreast) {
            auto* weights = panel + PANEL * k + column * abreast;
            for (int r = 0; r < ROWS; ++r)
                for (int j = 0; j < ABREAST; ++j)
                    sum[r][j] = fold(x + r * inputs + k, weights + WIDTH * abreast * j, sum[r][j]);
        }
        for (int r = 0; r < ROWS; ++r)
            for (int j = 0; j < ABREAST; ++j) *(Vector*)(into + r * sums.stride + column + WIDTH * j) = sum[r][j];
    }
};
// The same for any number of rows.
auto add_rows = [&](auto fold, int abreast, int rows, auto* x, int inputs, auto* panel, Sums sums) {
    const int blocks = (rows + BLOCK - 1) / BLOCK;
    for (int block = 0; block < blocks; ++block) {
        const int from = (int)((long)rows * block / blocks);
        auto* seen = x + (long)from * inputs;
        switch ((int)((long)rows * (block + 1) / blocks) - from) {
            case 1: add_block(One(), fold, abreast, seen, inputs, panel, from, sums); break;
            case 2: add_block(Two(), fold, abreast, seen, inputs, panel, from, sums); break;
            case 3: add_block(Three(), fold, abreast, seen, inputs, panel, from, sums); break;
            case 4: add_block(Four(), fold, abreast, seen, inputs, panel, from, sums); break;
            case 5: add_block(Five(), fold, abreast, seen, inputs, panel, from, sums); break;
            default: add_block(Six(), fold, abreast, seen, inputs, panel, from, sums);
        }
    }
};
// Adds the product of rows, from row `first` of `x`, and panel number `panel` of `weights`.
auto multiply = [&](int rows, const float* x, long first, int inputs, const float* weights, int panel, Sums sums) {
#if defined(__AVX512BF16__)
    if (size.half) {
        const Half *seen = (const Half*)x + first * inputs, *own = (const Half*)weights + (long)panel * inputs * PANEL;
        add_rows(fold_pair, 2, rows, seen, inputs, own, sums);
        return;
    }
#endif
    add_rows(fold, 1, rows, x + first * inputs, inputs, weights + (long)panel * inputs * PANEL, sums);
};
// Writes what will be a factor, from entry `at` on.
auto write = [&](float* into, long at, Lanes values) {
#if defined(__AVX512BF16__)
    if (size.half) {
        *(Halves*)((Half*)into + at) = __builtin_convertvector(values, Halves);
        return;
    }
#endif
    *(Lanes*)(into + at) = values;
};

// One thread's share of the runs, through all steps.
auto take = [&](int part) {
    const int from = call.bounds[part], to = call.bounds[part + 1];
    // Those of its runs that are longer than t.
    auto rows_at = [&](int t) {
        const int runs = call.first[t + 1] - call.first[t], end = runs < to ? runs : to;
        return end > from ? end - from : 0;
    };
    auto cell_before = [&](int t, int run) {
        return t ? call.cells + (long)(call.first[t - 1] + run) * units : call.cell + (long)run * units;
    };
    auto let_through = [&](int t, int run, int panel, bool goes_on) {
        const long row = call.first[t] + run;
        const int unit = LANES * panel;
        Lanes* gate = (Lanes*)(call.gates + row * gate_columns + PANEL * panel);
        gate[0] = sigmoid(gate[0]);
        gate[1] = sigmoid(gate[1]);
        gate[2] = tanh(gate[2]);
        gate[3] = sigmoid(gate[3]);
        const Lanes cell = gate[1] * *(const Lanes*)(cell_before(t, run) + unit) + gate[0] * gate[2];
        const Lanes hidden = gate[3] * tanh(cell);
        *(Lanes*)(call.cells + row * units + unit) = cell;
        *(Lanes*)(call.output + row * units + unit) = hidden;
        if (goes_on) write(call.inputs, (long)(call.first[t + 1] + run + 1) * size.inputs - units + unit, hidden);
    };
    auto step_forward = [&](int t, int rows) {
        const int going_on = t + 1 < size.steps ? rows_at(t + 1) : 0;
        const long row = call.first[t] + from;
        for (int panel = 0; panel < units / LANES; ++panel) {
            const Sums sums = {call.gates + row * gate_columns + PANEL * panel, gate_columns, call.bias + PANEL * panel};
            multiply(rows, call.inputs, row, size.inputs, call.weights, panel, sums);
            for (int i = 0; i < rows; ++i) let_through(t, from + i, panel, i < going_on);
        }
    };
    auto hand_back = [&](int t, int run) {
        const long row = call.first[t] + run;
        const float *gates = call.gates + row * gate_columns, *cell = cell_before(t, run);
        float* carried = call.carried + (long)run * 2 * units;
        long at = row * gate_columns;
        for (int unit = 0; unit < units; unit += LANES, gates += PANEL, at += PANEL) {
            const Lanes *gate = (const Lanes*)gates;
            const Lanes enter = gate[0], forget = gate[1], fresh = gate[2], leave = gate[3];
            const Lanes bounded = tanh(*(const Lanes*)(call.cells + row * units + unit));
            const Lanes hidden = *(const Lanes*)(call.output + row * units + unit) + *(const Lanes*)(carried + unit);
            const Lanes inside = *(const Lanes*)(carried + units + unit) + hidden * leave * (1.0f - bounded * bounded);
            write(call.gradient, at, inside * fresh * enter * (1.0f - enter));
            write(call.gradient, at + LANES, inside * *(const Lanes*)(cell + unit) * forget * (1.0f - forget));
            write(call.gradient, at + 2 * LANES, inside * enter * (1.0f - fresh * fresh));
            write(call.gradient, at + 3 * LANES, hidden * bounded * leave * (1.0f - leave));
            *(Lanes*)(carried + unit) = (Lanes)(0.0f);
            *(Lanes*)(carried + units + unit) = inside * forget;
        }
    };
    auto step_backward = [&](int t, int rows) {
        const long row = call.first[t] + from;
        for (int i = 0; i < rows; ++i) hand_back(t, from + i);
        if (t == 0) return;
        float* carried = call.carried + (long)from * 2 * units;
        for (int panel = 0; panel < units / PANEL; ++panel)
            multiply(rows, call.gradient, row, gate_columns, call.weights, panel, {carried + PANEL * panel, 2 * units, 0});
    };
    if (size.direction == BACKWARD)
        for (int t = size.steps - 1; t >= 0; --t) step_backward(t, rows_at(t));
    else
        for (int t = 0; t < size.steps; ++t) step_forward(t, rows_at(t));
};

if (size.parts == 1)
    take(0);
else
    share_out(take, size.parts, call.together, call.member, call.members);
