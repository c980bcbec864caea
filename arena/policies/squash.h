// Observations through the first layer of an encoder, forward or backward, on some cores: the body of a function, read
// behind panels.h.
//
// Its arguments are `sizes` and `addresses`, as arena/policies/squash.py fills them. Observations are normalised and
// clipped, as ActorCritic.normalise does it; tanh follows the layer. Threads of the OpenMP that torch has loaded share
// the rows; none touches another's. With half precision, inputs and the gradient of the sums are bfloat16.

struct Call {
    const float* weight;     // (outputs, inputs)
    float* panels;           // forward: room for it
    const float* seen;       // (N, inputs): observations; forward
    const float* mean;       // (inputs): forward
    const float* std;        // (inputs): forward
    float* inputs;           // (N, inputs): what the layer takes
    const float* bias;       // (outputs): forward
    float* output;           // (N, outputs): tanh of the sums
    const float* of_output;  // (N, outputs): backward: the loss's gradient of it
    float* sums;             // (N, outputs): backward: the loss's gradient of the sums
    float* of_bias;          // (parts, outputs): backward, zeros: each thread's share of that of the bias
    Together* together;
    Member *member, *members;
};
enum Direction { FORWARD, BACKWARD };
struct Sizes { int direction, half, rows, inputs, outputs, parts; };
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
const float CLIP = 10.0f;    // OBSERVATION_CLIP
enum { TILE = 8 * BLOCK };  // rows that stay in a core's nearest caches
const bool half = size.half;
const Panels panels = {call.panels, size.inputs, half};

// Comparisons in place of minima and maxima, which would drop what is not a number.
auto clipped = [&](Lanes x) {
    const Lanes most = (Lanes)(CLIP);
    return x < -most ? -most : (x > most ? most : x);
};
auto normalise = [&](long row) {
    for (int at = 0; at < size.inputs; at += LANES) {
        const int count = size.inputs - at;
        const Lanes centred = load(call.seen + row * size.inputs + at, count) - load(call.mean + at, count);
        write_factors(half, call.inputs, row * size.inputs + at, clipped(centred / load(call.std + at, count)), count);
    }
};
auto squash = [&](long row, int rows) {
    for (int i = 0; i < rows; ++i) normalise(row + i);
    float* output = call.output + row * size.outputs;
    for (int panel = 0; panel < size.outputs / PANEL; ++panel) {
        const Sums sums = {output + PANEL * panel, size.outputs, LANES, call.bias + PANEL * panel};
        multiply(rows, call.inputs, row, panels, panel, sums);
    }
    for (long at = 0; at < (long)rows * size.outputs; at += LANES)
        *(Lanes*)(output + at) = tanh(*(const Lanes*)(output + at));
};
auto pull_back = [&](long row, int rows, float* of_bias) {
    for (int i = 0; i < rows; ++i)
        for (int unit = 0; unit < size.outputs; unit += LANES) {
            const long at = (row + i) * size.outputs + unit;
            const Lanes bounded = *(const Lanes*)(call.output + at);
            const Lanes gradient = *(const Lanes*)(call.of_output + at) * (1.0f - bounded * bounded);
            write_factor(half, call.sums, at, gradient);
            *(Lanes*)(of_bias + unit) += gradient;
        }
};

if (size.direction == FORWARD)
    for (int unit = 0; unit < size.outputs; unit += LANES)
        pack_outputs(call.weight + (long)unit * size.inputs, size.inputs, panels, unit / PANEL, 0, unit % PANEL);

// One thread's share of the rows.
auto take = [&](int part) {
    const long from = (long)size.rows * part / size.parts, to = (long)size.rows * (part + 1) / size.parts;
    for (long row = from; row < to; row += TILE) {
        const int rows = to - row < TILE ? to - row : TILE;
        if (size.direction == FORWARD)
            squash(row, rows);
        else
            pull_back(row, rows, call.of_bias + (long)part * size.outputs);
    }
};
if (size.parts == 1)
    take(0);
else
    share_out(take, size.parts, call.together, call.member, call.members);
