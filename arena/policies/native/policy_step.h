// One decision of many rows with the networks of K slots, on one or more threads: the body of a function. If the rows are
// agents of environments, it also gathers their observations, samples actions and scatters these.
//
// Its arguments are `sizes` and `addresses`, as filled by arena/policies/ensemble/native_backend.py. Rows are sorted by
// slot. Weights are in panels of 64 columns: a row of biases, then one row per input. The sums of BLOCK rows x 64 columns
// stay in registers while the panel is read once. A panel of gates holds the input, forget, cell and output gates of 16
// units next to each other. Every sum adds its inputs in order, so the result of a row does not depend on the other rows
// of its block. Threads of the OpenMP library that torch has loaded share the rows.

enum { CHUNK = 120, MOST_LAYERS = 16 };
const float CLIP = 10.0f, TINY = 1e-5f;

struct Call {
    const float* weights;          // (K, slot_size)
    const int* first;              // (K + 1): offset of each slot's rows in `order`
    const int* order;              // (R): rows, sorted by slot
    float* values;                 // (R, widths[0])
    const float* hidden;           // (R, units)
    const float* cell;             // (R, units)
    unsigned char* starts;         // (R)
    unsigned char* active;         // (R)
    float* next_hidden;            // (R, units)
    float* next_cell;              // (R, units)
    float* readout;                // (R, columns)
    float* scratch;                // (parts, scratch)
    Together* together;
    Member *member, *members;
};
struct Sizes {
    int slots, slot_size, units, columns;  // units is 0 without an LSTM
    int parts, scratch;
    int rectified, layers, widths[MOST_LAYERS + 1];  // the first `rectified` layers end in LayerNorm and ReLU
};
// Appended to `Call` and `Sizes` if the rows are agents: A agents in E environments.
struct AgentStep {
    const long long* agent;         // (R): flat index of the row's agent
    const unsigned char* present;   // (R): whether the row acts for its agent and is not spare
    const float* values;            // (A, widths[0])
    const unsigned char* active;    // (A)
    const unsigned char* episode_start;    // (E)
    const float* noise;             // (R, parameters)
    const float* scale;             // (K, parameters)
    unsigned char* mask;            // (R, mask_size)
    float* raw;                     // (R, raw_size)
    const unsigned char* masks[1];  // of every head (A, size), null if unmasked; then its actions (A, ...)
};
enum { GAUSSIAN, BERNOULLI, CATEGORICAL };
struct Head { int kind, size; };
struct Heads { int agents, count, mask_size, raw_size; Head head[1]; };  // agents of an environment, and their heads
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
const bool for_agents = sizes.shape[0] > (int)(sizeof(Sizes) / sizeof(int));  // whether rows are agents
const AgentStep& agent_step = *(const AgentStep*)(addresses.data + sizeof(Call) / sizeof(void*));
const Heads& heads = *(const Heads*)(sizes.data + sizeof(Sizes) / sizeof(int));

auto total = [](Lanes x) {
    float sum = 0.0f;
    for (int lane = 0; lane < LANES; ++lane) sum += x[lane];
    return sum;
};

// sums (rows, 64) = bias (64) + x (rows, inputs) times weights (inputs, 64), in the first lanes x 16 columns of a panel
auto sum_block = [&](auto rows, auto lanes, const float* x, int inputs, const float* panel, float* sums) {
    enum { ROWS = decltype(rows)::count, COLUMNS = decltype(lanes)::count };
    const float* weights = panel + PANEL;
    for (int lane = 0; lane < LANES; lane += WIDTH) {
        Vector sum[ROWS][COLUMNS];
        for (int j = 0; j < COLUMNS; ++j)
            for (int r = 0; r < ROWS; ++r) sum[r][j] = *(const Vector*)(panel + lane + LANES * j);
        for (int k = 0; k < inputs; ++k) {
            Vector weight[COLUMNS];
            for (int j = 0; j < COLUMNS; ++j) weight[j] = *(const Vector*)(weights + PANEL * k + lane + LANES * j);
            for (int r = 0; r < ROWS; ++r)
                for (int j = 0; j < COLUMNS; ++j)
                    sum[r][j] = multiply_add((Vector)(x[r * inputs + k]), weight[j], sum[r][j]);
        }
        for (int r = 0; r < ROWS; ++r)
            for (int j = 0; j < COLUMNS; ++j) *(Vector*)(sums + PANEL * r + lane + LANES * j) = sum[r][j];
    }
};
auto sum_columns = [&](auto rows, int columns, const float* x, int inputs, const float* panel, float* sums) {
    for (int begin = 0; begin < columns; begin += LANES * ABREAST, panel += LANES * ABREAST, sums += LANES * ABREAST) {
        const int lanes = (columns - begin + LANES - 1) / LANES;
        switch (lanes < ABREAST ? lanes : ABREAST) {
            case 1: sum_block(rows, One(), x, inputs, panel, sums); break;
            case 2: sum_block(rows, Two(), x, inputs, panel, sums); break;
            case 3: sum_block(rows, Three(), x, inputs, panel, sums); break;
            default: sum_block(rows, Four(), x, inputs, panel, sums);
        }
    }
};
auto sum_rows = [&](int rows, int columns, const float* x, int inputs, const float* panel, float* sums)
    __attribute__((noinline)) {
    const int blocks = (rows + BLOCK - 1) / BLOCK;
    for (int block = 0; block < blocks; ++block) {
        const int from = rows * block / blocks;
        const float* seen = x + (long)from * inputs;
        float* into = sums + PANEL * from;
        switch (rows * (block + 1) / blocks - from) {
            case 1: sum_columns(One(), columns, seen, inputs, panel, into); break;
            case 2: sum_columns(Two(), columns, seen, inputs, panel, into); break;
            case 3: sum_columns(Three(), columns, seen, inputs, panel, into); break;
            case 4: sum_columns(Four(), columns, seen, inputs, panel, into); break;
            case 5: sum_columns(Five(), columns, seen, inputs, panel, into); break;
            default: sum_columns(Six(), columns, seen, inputs, panel, into);
        }
    }
};

int widest = 0;
for (int layer = 0; layer <= size.layers; ++layer)
    widest = size.widths[layer] > widest ? size.widths[layer] : widest;
const int units = size.units, last = size.widths[size.layers], core = units ? units : last;

// Processes one thread's share of the rows.
auto take = [&](int part) {
    const int rows = call.first[size.slots];
    const int from = (int)((long)rows * part / size.parts), to = (int)((long)rows * (part + 1) / size.parts);
    // One pass: up to CHUNK acting rows of a slot. `from` holds what the next layer reads, `into` what it writes.
    struct Pass { const float* weights; float *sums, *from, *into; int rows, row[CHUNK]; };
    Pass pass;
    pass.sums = call.scratch + (long)part * size.scratch;  // (CHUNK, PANEL)
    pass.from = pass.sums + CHUNK * PANEL;                 // (CHUNK, widest + units)
    pass.into = pass.from + CHUNK * (widest + units);      // the same
    auto swap = [&] { float* from = pass.from; pass.from = pass.into; pass.into = from; };

    auto skip_row = [&](long row) {
        for (int u = 0; u < units; ++u) {
            call.next_hidden[row * units + u] = call.starts[row] ? 0.0f : call.hidden[row * units + u];
            call.next_cell[row * units + u] = call.starts[row] ? 0.0f : call.cell[row * units + u];
        }
        for (int c = 0; c < size.columns; ++c) call.readout[row * size.columns + c] = 0.0f;
    };
    // Collects the next active rows of a slot, at most that many, and skips inactive ones. Returns the next position.
    auto gather = [&](int place, int end, int most) {
        for (pass.rows = 0; place < end; ++place) {
            const int row = call.order[place];
            if (!call.active[row]) { skip_row(row); continue; }
            if (pass.rows == most) break;
            pass.row[pass.rows++] = row;
        }
        return place;
    };
    // Stride of a layer's rows; rows of the core's inputs, [features, hidden], have room for the hidden state.
    auto stride_of = [&](int layer) { return size.widths[layer] + (layer == size.layers ? units : 0); };
    auto normalise_observations = [&] {
        const int seen = size.widths[0];
        const float *mean = pass.weights, *inverse_std = mean + seen;
        for (int i = 0; i < pass.rows; ++i) {
            const float* values = call.values + (long)pass.row[i] * seen;
            float* into = pass.from + (long)i * stride_of(0);
            for (int d = 0; d < seen; ++d)
                into[d] = __builtin_fminf(__builtin_fmaxf((values[d] - mean[d]) * inverse_std[d], -CLIP), CLIP);
        }
        pass.weights += 2 * seen;
    };
    // Multiplies with the next layer panel by panel; calls `use` with row, first column, number of columns and sums.
    auto multiply = [&](int inputs, int outputs, auto use) {
        for (int begin = 0; begin < outputs; begin += PANEL, pass.weights += PANEL * (inputs + 1)) {
            const int columns = outputs - begin < PANEL ? outputs - begin : PANEL;
            sum_rows(pass.rows, columns, pass.from, inputs, pass.weights, pass.sums);
            for (int i = 0; i < pass.rows; ++i) use(i, begin, columns, pass.sums + PANEL * i);
        }
    };
    struct Scale { float mean, inverse; };  // of a row: its mean, and one over its standard deviation
    auto scale_of = [&](const float* feature, int count) {
        const int whole = count / LANES * LANES;
        Lanes sums = (Lanes)(0.0f), squares = (Lanes)(0.0f);
        for (int f = 0; f < whole; f += LANES) sums += *(const Lanes*)(feature + f);
        float sum = total(sums), square = 0.0f;
        for (int f = whole; f < count; ++f) sum += feature[f];
        const float mean = sum / count;
        for (int f = 0; f < whole; f += LANES) {
            const Lanes off = *(const Lanes*)(feature + f) - mean;
            squares += off * off;
        }
        for (int f = whole; f < count; ++f) square += (feature[f] - mean) * (feature[f] - mean);
        return Scale{mean, 1.0f / __builtin_sqrtf((total(squares) + square) / count + TINY)};
    };
    auto rectified_layer = [&](int layer) {
        const int width = size.widths[layer], whole = width / LANES * LANES;
        multiply(size.widths[layer - 1], width, [&](int i, int begin, int columns, float* sums) {
            float* into = pass.into + (long)i * stride_of(layer) + begin;
            for (int c = 0; c < columns; ++c) into[c] = sums[c];
        });
        const float *scale = pass.weights, *offset = scale + width;
        for (int i = 0; i < pass.rows; ++i) {
            float* feature = pass.into + (long)i * stride_of(layer);
            const Scale of = scale_of(feature, width);
            for (int f = 0; f < whole; f += LANES) {
                const Lanes normed = (*(const Lanes*)(feature + f) - of.mean) * of.inverse;
                const Lanes shifted = multiply_add(normed, *(const Lanes*)(scale + f), *(const Lanes*)(offset + f));
                *(Lanes*)(feature + f) = __builtin_elementwise_max(shifted, (Lanes)(0.0f));
            }
            for (int f = whole; f < width; ++f)
                feature[f] = __builtin_fmaxf((feature[f] - of.mean) * of.inverse * scale[f] + offset[f], 0.0f);
        }
        pass.weights += 2 * width;
        swap();
    };
    auto tanh_layer = [&](int layer) {
        multiply(size.widths[layer - 1], size.widths[layer], [&](int i, int begin, int columns, float* sums) {
            for (int c = 0; c < columns; c += LANES) *(Lanes*)(sums + c) = tanh(*(const Lanes*)(sums + c));
            float* into = pass.into + (long)i * stride_of(layer) + begin;
            for (int c = 0; c < columns; ++c) into[c] = sums[c];
        });
        swap();
    };
    auto advance_lstm = [&] {
        for (int i = 0; i < pass.rows; ++i) {
            const long row = pass.row[i];
            float* into = pass.from + (long)i * (last + units) + last;
            for (int u = 0; u < units; ++u) into[u] = call.starts[row] ? 0.0f : call.hidden[row * units + u];
        }
        multiply(last + units, 4 * units, [&](int i, int begin, int, float* sums) {
            const Lanes* gate = (const Lanes*)sums;
            const int unit = begin / 4;
            const long row = pass.row[i], at = row * units + unit;
            const Lanes before = call.starts[row] ? (Lanes)(0.0f) : *(const Lanes*)(call.cell + at);
            const Lanes cell = sigmoid(gate[1]) * before + sigmoid(gate[0]) * tanh(gate[2]);
            const Lanes hidden = sigmoid(gate[3]) * tanh(cell);
            *(Lanes*)(call.next_cell + at) = cell;
            *(Lanes*)(call.next_hidden + at) = hidden;
            *(Lanes*)(pass.into + (long)i * units + unit) = hidden;
        });
        swap();
    };
    // LayerNorm without scale and offset, which are merged into the next layer.
    auto normalise_features = [&] {
        for (int i = 0; i < pass.rows; ++i) {
            float* feature = pass.from + (long)i * core;
            const Scale of = scale_of(feature, core);
            for (int f = 0; f < core; f += LANES)
                *(Lanes*)(feature + f) = (*(const Lanes*)(feature + f) - of.mean) * of.inverse;
        }
    };
    auto gather_observation = [&](long row) {
        const long agent = agent_step.agent[row], seen = size.widths[0];
        __builtin_memcpy(call.values + row * seen, agent_step.values + agent * seen, seen * sizeof(float));
        call.active[row] = agent_step.active[agent] & agent_step.present[row];
        call.starts[row] = agent_step.episode_start[agent / heads.agents];
        unsigned char* mask = agent_step.mask + row * heads.mask_size;
        for (int h = 0; h < heads.count; ++h) {
            if (!agent_step.masks[h]) continue;
            const long options = heads.head[h].size;
            __builtin_memcpy(mask, agent_step.masks[h] + agent * options, options);
            mask += options;
        }
    };
    // Samples raw actions with the given noise and writes the environment's actions.
    auto sample_action = [&](long row, int slot) {
        const int parameters = size.columns - 1;
        const float *mean = call.readout + row * size.columns, *noise = agent_step.noise + row * parameters;
        const float* scale = agent_step.scale + (long)slot * parameters;
        const unsigned char* mask = agent_step.mask + row * heads.mask_size;
        float* raw = agent_step.raw + row * heads.raw_size;
        const long agent = agent_step.agent[row];
        for (int h = 0; h < heads.count; ++h) {
            const int options = heads.head[h].size;
            const unsigned char* legal = agent_step.masks[h] ? mask : nullptr;
            void* action = agent_step.present[row] ? (void*)agent_step.masks[heads.count + h] : nullptr;
            switch (heads.head[h].kind) {
                case GAUSSIAN:
                    for (int from = 0; from < options; from += LANES) {
                        const int count = options - from < LANES ? options - from : LANES;
                        Lanes drawn = (Lanes)(0.0f);
                        for (int i = 0; i < count; ++i) {
                            const int k = from + i;
                            raw[k] = drawn[i] = multiply_add(noise[k], scale[k], mean[k]);
                        }
                        const Lanes squashed = tanh(drawn);
                        for (int i = 0; action && i < count; ++i)
                            ((float*)action)[agent * options + from + i] = squashed[i];
                    }
                    raw += options;
                    break;
                case BERNOULLI:
                    for (int i = 0; i < options; ++i) {
                        const bool on = multiply_add(noise[i], scale[i], mean[i]) > 0.0f && (!legal || legal[i]);
                        raw[i] = on;
                        if (action) ((unsigned char*)action)[agent * options + i] = on;
                    }
                    raw += options;
                    break;
                default: {
                    int best = 0;
                    float most = -__builtin_inff();
                    for (int i = 0; i < options; ++i) {
                        const float each = multiply_add(noise[i], scale[i], mean[i]);
                        if (each > most && (!legal || legal[i])) most = each, best = i;
                    }
                    *raw++ = best;
                    if (action) ((long long*)action)[agent] = best;
                }
            }
            mean += options, noise += options, scale += options;
            if (legal) mask += options;
        }
    };
    auto output_heads = [&] {
        multiply(core, size.columns, [&](int i, int begin, int columns, float* sums) {
            float* into = call.readout + (long)pass.row[i] * size.columns + begin;
            for (int c = 0; c < columns; ++c) into[c] = sums[c];
        });
    };

    for (int slot = 0; slot < size.slots; ++slot) {
        const int opens = call.first[slot], closes = call.first[slot + 1], end = closes < to ? closes : to;
        int place = opens > from ? opens : from, acting = 0;
        if (place >= end) continue;
        const int begins = place;
        for (int each = place; for_agents && each < end; ++each) gather_observation(call.order[each]);
        for (int each = place; each < end; ++each) acting += call.active[call.order[each]];
        const int passes = acting ? (acting + CHUNK - 1) / CHUNK : 1;
        for (int done = 0; done < passes; ++done) {
            place = gather(place, end, acting * (done + 1) / passes - acting * done / passes);
            pass.weights = call.weights + (long)slot * size.slot_size;
            normalise_observations();
            for (int layer = 1; layer <= size.layers; ++layer)
                layer <= size.rectified ? rectified_layer(layer) : tanh_layer(layer);
            if (units) advance_lstm();
            normalise_features();
            output_heads();
        }
        for (int each = begins; for_agents && each < end; ++each) sample_action(call.order[each], slot);
    }
};
if (size.parts == 1)
    take(0);
else
    share_out(take, size.parts, call.together, call.member, call.members);
