// LSTM over packed runs, forward or backward in time, on one or more threads: the body of a function.
//
// Its arguments are `sizes` and `addresses`, as filled by arena/policies/nn/native_lstm.py. Decisions are stored time
// step by time step: those of step t are rows first[t] to first[t + 1], one for every run longer than t, and runs are
// sorted longest first. The decision of run r at step t is therefore row first[t] + r. Threads of the OpenMP library
// that torch has loaded share the runs, and no thread writes to another's rows.
//
// Weights are in panels, see gemm_panels.h. In the forward pass the columns of a panel are the input, forget, cell and
// output gates of 16 units, and the sums are stored in torch's gate order. In half precision, inputs and the gradient
// of the gates before activation are bfloat16.

struct Call {
    const int* first;        // (steps + 1)
    const float* weight_ih;  // (4 units, features)
    const float* weight_hh;  // (4 units, units)
    float* panels;           // both matrices in panels, features rounded up to multiples of 64
    float* gates;            // (N, 4 units): gate activations
    float* inputs;           // (N, features + units): features of each decision, then the hidden state before it
    float* cells;            // (N, units): cell after each decision
    const float* features;   // (N, features): forward
    const float* hidden;     // (S, units): forward: hidden state before each run
    const float* cell;       // (S, units): cell before each run
    float* output;           // (N, units): hidden state after each decision; backward: the loss's gradient of it
    const float* bias;       // (4 units): forward
    float* sums;             // (N, 4 units): backward: the loss's gradient of the gates' sums; may be where `gates` are
    float* carried;          // (S, 2 units): backward, zeros: gradients of hidden and cell on their way back
    float* of_features;      // (N, features filled up to multiples of 64): backward: the loss's gradient of them
    float* of_bias;          // (parts, 4 units): backward, zeros: each thread's share of that of the bias
    const int* bounds;       // (parts + 1): runs at which to part them
    Together* together;
    Member *member, *members;
};
enum Direction { FORWARD, BACKWARD, QUERY_BFLOAT16 };
struct Sizes { int direction, half, tiles, to_features, units, features, steps, parts; };
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
if (size.direction == QUERY_BFLOAT16) {  // does this processor have bfloat16 dot products, and tiles of them?
    sizes.data[0] = sizes.data[1] = 0;
#if defined(__AVX512BF16__)
    sizes.data[0] = 1;
#if defined(__AMX_BF16__)
    sizes.data[1] = 1;
#endif
#endif
    return;
}
const int units = size.units, gate_columns = 4 * size.units, inputs = size.features + size.units;
const bool half = size.half;
const Panels panels = {call.panels, size.direction == FORWARD ? inputs : gate_columns, half, size.tiles != 0};

// Unrolls one thread's share of the runs over all steps.
auto take = [&](int part) {
    const int from = call.bounds[part], to = call.bounds[part + 1];
    // Number of its runs that are longer than t.
    auto rows_at = [&](int t) {
        const int runs = call.first[t + 1] - call.first[t], end = runs < to ? runs : to;
        return end > from ? end - from : 0;
    };
    auto cell_before = [&](int t, int run) {
        return t ? call.cells + (long)(call.first[t - 1] + run) * units : call.cell + (long)run * units;
    };
    auto apply_cell = [&](int t, int run, int panel, bool continues) {
        const long row = call.first[t] + run;
        const int unit = LANES * panel;
        float* const gates = call.gates + row * gate_columns + unit;
        auto gate = [&](int number) -> Lanes& { return *(Lanes*)(gates + number * units); };
        const Lanes enter = gate(0) = sigmoid(gate(0)), forget = gate(1) = sigmoid(gate(1));
        const Lanes fresh = gate(2) = tanh(gate(2)), leave = gate(3) = sigmoid(gate(3));
        const Lanes cell = forget * *(const Lanes*)(cell_before(t, run) + unit) + enter * fresh;
        const Lanes hidden = leave * tanh(cell);
        *(Lanes*)(call.cells + row * units + unit) = cell;
        *(Lanes*)(call.output + row * units + unit) = hidden;
        const long next = call.first[t + 1] + run;
        if (continues) write_factor(half, call.inputs, next * inputs + size.features + unit, hidden);
    };
    auto write_row = [&](long row, int place, const float* values, int count) {
        for (int at = 0; at < count; at += LANES)
            write_factors(half, call.inputs, row * inputs + place + at, load(values + at, count - at), count - at);
    };
    auto step_forward = [&](int t, int rows) {
        const int continuing = t + 1 < size.steps ? rows_at(t + 1) : 0;
        const long row = call.first[t] + from;
        for (int i = 0; i < rows; ++i)
            write_row(row + i, 0, call.features + (row + i) * size.features, size.features);
        for (int i = 0; t == 0 && i < rows; ++i)
            write_row(row + i, size.features, call.hidden + (long)(from + i) * units, units);
        for (int panel = 0; panel < units / LANES; ++panel) {
            const int unit = LANES * panel;
            const Sums sums = {call.gates + row * gate_columns + unit, gate_columns, units, call.bias + unit};
            multiply(rows, call.inputs, row, panels, panel, sums);
            for (int i = 0; i < rows; ++i) apply_cell(t, from + i, panel, i < continuing);
        }
    };
    float* const of_bias = call.of_bias + (long)part * gate_columns;
    auto backward_cell = [&](int t, int run) {
        const long row = call.first[t] + run;
        const float* cell = cell_before(t, run);
        float* carried = call.carried + (long)run * 2 * units;
        for (int unit = 0; unit < units; unit += LANES) {
            auto gate = [&](int number) {
                return *(const Lanes*)(call.gates + row * gate_columns + number * units + unit);
            };
            auto store_gradient = [&](int number, Lanes gradient) {
                write_factor(half, call.sums, row * gate_columns + number * units + unit, gradient);
                *(Lanes*)(of_bias + number * units + unit) += gradient;
            };
            const Lanes enter = gate(0), forget = gate(1), fresh = gate(2), leave = gate(3);
            const Lanes bounded = tanh(*(const Lanes*)(call.cells + row * units + unit));
            const Lanes hidden = *(const Lanes*)(call.output + row * units + unit) + *(const Lanes*)(carried + unit);
            const Lanes inside = *(const Lanes*)(carried + units + unit) + hidden * leave * (1.0f - bounded * bounded);
            store_gradient(0, inside * fresh * enter * (1.0f - enter));
            store_gradient(1, inside * *(const Lanes*)(cell + unit) * forget * (1.0f - forget));
            store_gradient(2, inside * enter * (1.0f - fresh * fresh));
            store_gradient(3, hidden * bounded * leave * (1.0f - leave));
            *(Lanes*)(carried + units + unit) = inside * forget;
        }
    };
    // Gradient of the inputs from the gradient of the gates before activation.
    auto backward_inputs = [&](int rows, long row, int panel, int columns, float* into, int stride) {
        for (int column = 0; column < columns; column += PANEL, ++panel)
            multiply(rows, call.sums, row, panels, panel, {into + column, stride, LANES, zeros});
    };
    auto step_backward = [&](int t, int rows) {
        const long row = call.first[t] + from;
        for (int i = 0; i < rows; ++i) backward_cell(t, from + i);
        if (t) backward_inputs(rows, row, 0, units, call.carried + (long)from * 2 * units, 2 * units);
        const int columns = filled_up(size.features);
        if (size.to_features) backward_inputs(rows, row, units / PANEL, columns, call.of_features + row * columns, columns);
    };
    if (size.direction == BACKWARD)
        for (int t = size.steps - 1; t >= 0; --t) step_backward(t, rows_at(t));
    else
        for (int t = 0; t < size.steps; ++t) step_forward(t, rows_at(t));
};

if (size.direction == FORWARD) {
    for (int unit = 0; unit < units; unit += LANES)
        for (int gate = 0; gate < 4; ++gate) {
            const long row = gate * units + unit;
            const int panel = unit / LANES, column = LANES * gate;
            pack_outputs(call.weight_ih + row * size.features, size.features, panels, panel, 0, column);
            pack_outputs(call.weight_hh + row * units, units, panels, panel, size.features, column);
        }
} else {
    pack_inputs(call.weight_hh, units, panels, 0);
    if (size.to_features) pack_inputs(call.weight_ih, size.features, panels, units / PANEL);
}
if (size.parts == 1)
    take(0);
else
    share_out(take, size.parts, call.together, call.member, call.members);
