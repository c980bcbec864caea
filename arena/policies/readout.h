// What is read out of a core's output, forward and back, on some cores: the body of a function, read behind lanes.h.
//
// Its arguments are `sizes` and `addresses`, as arena/policies/readout.py fills them. Every row is centred, scaled to
// unit variance and by learned factors; each output is its product with a row of weights. Threads of the OpenMP that
// torch has loaded share the rows, and each sums up the gradients of weights over its own.

struct Call {
    const float* hidden;       // (N, units): what the core puts out
    const float* scale;        // (units)
    const float* offset;       // (units)
    const float* actor;        // (actors, units)
    const float* critic;       // (1, units)
    const float* actor_bias;   // (actors)
    const float* critic_bias;  // (1)
    float* moments;            // (N, 2): mean of a row, and the inverse of its standard deviation
    float* features;           // (N, units)
    float* parameters;         // (N, actors): what the actor puts out; backward: the loss's gradient of it
    float* value;              // (N): what the critic puts out; backward: the loss's gradient of it
    float* of_features;        // (N, units): backward: the loss's gradient of them; null where nothing else used them
    float* of_hidden;          // (N, units): backward: the loss's gradient of it
    float* of_weights;         // (parts, ...): backward, zeros: each thread's share of that of everything learned
    Together* together;
    Member *member, *members;
};
enum Direction { FORWARD, BACKWARD };
struct Sizes { int direction, rows, units, actors, parts; };
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
const int units = size.units, actors = size.actors, outputs = size.actors + 1;
const float epsilon = 1e-5f;

// A thread's share of the gradients of weights.
struct Share { float *scale, *offset, *weight, *bias; };
auto share = [&](int part) {
    float* begin = call.of_weights + (long)part * ((outputs + 2) * units + outputs);
    return Share{begin, begin + units, begin + 2 * units, begin + (outputs + 2) * units};
};
auto total = [](Lanes x) {
    const auto eight = x.lo + x.hi;
    const auto four = eight.lo + eight.hi;
    const auto two = four.lo + four.hi;
    return two.lo + two.hi;
};
// One row of weights, and where its column of outputs begins; its entries lie `stride` apart.
struct Output { const float *weight, *bias; float* column; int stride; };
auto output = [&](int number) {
    if (number == actors) return Output{call.critic, call.critic_bias, call.value, 1};
    return Output{call.actor + (long)number * units, call.actor_bias + number, call.parameters + number, actors};
};
auto lanes = [](auto* from) -> auto& { return *(Lanes*)from; };

auto normalise = [&](long row) {
    const float* hidden = call.hidden + row * units;
    Lanes sum = (Lanes)(0.0f), square = (Lanes)(0.0f);
    for (int unit = 0; unit < units; unit += LANES) sum += lanes(hidden + unit);
    const float mean = total(sum) / units;
    for (int unit = 0; unit < units; unit += LANES) {
        const Lanes centred = lanes(hidden + unit) - mean;
        square = multiply_add(centred, centred, square);
    }
    const float inverse = 1.0f / __builtin_sqrtf(total(square) / units + epsilon);
    for (int unit = 0; unit < units; unit += LANES)
        lanes(call.features + row * units + unit) = multiply_add(
            (lanes(hidden + unit) - mean) * inverse, lanes(call.scale + unit), lanes(call.offset + unit));
    call.moments[2 * row] = mean;
    call.moments[2 * row + 1] = inverse;
};
auto read_out = [&](auto rows, long row) {
    enum { ROWS = decltype(rows)::count };
    for (int r = 0; r < ROWS; ++r) normalise(row + r);
    const float* features = call.features + row * units;
    for (int number = 0; number < outputs; ++number) {
        const Output own = output(number);
        Lanes sum[ROWS] = {};
        for (int unit = 0; unit < units; unit += LANES)
            for (int r = 0; r < ROWS; ++r)
                sum[r] = multiply_add(lanes(features + r * units + unit), lanes(own.weight + unit), sum[r]);
        for (int r = 0; r < ROWS; ++r) own.column[(row + r) * own.stride] = total(sum[r]) + *own.bias;
    }
};

// Gradients of the features of some rows, which lie where those of their hidden states will; and of the weights.
auto pull_back = [&](auto rows, long row, Share shares) {
    enum { ROWS = decltype(rows)::count };
    float* gradients = call.of_hidden + row * units;
    const float* features = call.features + row * units;
    for (int unit = 0; unit < units; unit += LANES) {
        Lanes sum[ROWS] = {};
        if (call.of_features)
            for (int r = 0; r < ROWS; ++r) sum[r] = lanes(call.of_features + (row + r) * units + unit);
        for (int number = 0; number < outputs; ++number) {
            const Output own = output(number);
            for (int r = 0; r < ROWS; ++r)
                sum[r] = multiply_add((Lanes)(own.column[(row + r) * own.stride]), lanes(own.weight + unit), sum[r]);
        }
        for (int r = 0; r < ROWS; ++r) lanes(gradients + r * units + unit) = sum[r];
    }
    for (int number = 0; number < outputs; ++number) {
        const Output own = output(number);
        const float* column = own.column + row * own.stride;
        for (int unit = 0; unit < units; unit += LANES) {
            Lanes& sum = lanes(shares.weight + number * units + unit);
            for (int r = 0; r < ROWS; ++r)
                sum = multiply_add((Lanes)(column[r * own.stride]), lanes(features + r * units + unit), sum);
        }
        for (int r = 0; r < ROWS; ++r) shares.bias[number] += column[r * own.stride];
    }
};
// Back through the normalisation of a row.
auto denormalise = [&](long row, Share shares) {
    const float mean = call.moments[2 * row], inverse = call.moments[2 * row + 1];
    const float* hidden = call.hidden + row * units;
    float* gradient = call.of_hidden + row * units;
    auto normal = [&](int unit) { return (lanes(hidden + unit) - mean) * inverse; };
    Lanes sum = (Lanes)(0.0f), product = (Lanes)(0.0f);
    for (int unit = 0; unit < units; unit += LANES) {
        const Lanes given = lanes(gradient + unit), scaled = given * lanes(call.scale + unit);
        sum += scaled;
        product = multiply_add(scaled, normal(unit), product);
        lanes(shares.scale + unit) += given * normal(unit);
        lanes(shares.offset + unit) += given;
        lanes(gradient + unit) = scaled;
    }
    const float shift = total(sum) / units, slope = total(product) / units;
    for (int unit = 0; unit < units; unit += LANES)
        lanes(gradient + unit) = (lanes(gradient + unit) - shift - slope * normal(unit)) * inverse;
};
auto hand_back = [&](auto rows, long row, Share shares) {
    pull_back(rows, row, shares);
    for (int r = 0; r < decltype(rows)::count; ++r) denormalise(row + r, shares);
};

// One thread's share of the rows, four at a time.
auto take = [&](int part) {
    const long from = (long)size.rows * part / size.parts, to = (long)size.rows * (part + 1) / size.parts;
    auto go = [&](auto rows, long row) {
        if (size.direction == FORWARD)
            read_out(rows, row);
        else
            hand_back(rows, row, share(part));
    };
    long row = from;
    for (; row + 4 <= to; row += 4) go(Four(), row);
    for (; row < to; ++row) go(One(), row);
};
if (size.parts == 1)
    take(0);
else
    share_out(take, size.parts, call.together, call.member, call.members);
