// Matrix products over weight panels, included after simd.h.
//
// Weights in torch's layout are first copied into panels of 64 columns with one row per input. The sums of BLOCK rows
// x 64 columns then stay in registers while the panel is read once. Every sum adds its inputs in order, so the result
// of a row does not depend on the other rows of its block.
//
// In half precision all factors are bfloat16 and all sums float. A row of a panel then holds two inputs of every column
// next to each other, as dot products and AMX's tiles take them. On Intel, dot products are no faster than float32.

#if defined(__AVX512BF16__)
typedef __bf16 Half;
typedef Half Pairs __attribute__((ext_vector_type(2 * LANES), aligned(2), may_alias));
typedef Half Halves __attribute__((ext_vector_type(LANES), aligned(2), may_alias));
#endif

auto filled_up = [](int columns) { return (columns + PANEL - 1) / PANEL * PANEL; };

// Adds one input, or a pair of inputs, to a block's sums.
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
// Destination of sums (rows, 64): rows are `stride` floats apart, groups of 16 columns `apart`. Sums start at the bias,
// which has the same layout.
struct Sums { float* into; int stride, apart; const float* bias; };
const float zeros[PANEL] = {};
// x (rows, inputs) times a panel of weights (inputs, 64), `abreast` inputs at once.
auto add_block = [&](auto rows, auto fold, int abreast, auto* x, int inputs, auto* panel, int first, Sums sums) {
    enum { ROWS = decltype(rows)::count };
    auto place = [&](int column) { return column / LANES * sums.apart + column % LANES; };
    float* into = sums.into + (long)first * sums.stride;
    for (int column = 0; column < PANEL; column += WIDTH * ABREAST) {
        Vector sum[ROWS][ABREAST];
        for (int r = 0; r < ROWS; ++r)
            for (int j = 0; j < ABREAST; ++j) {
                // The sums' destination is often in no cache: fetched now, it arrives while they are computed.
                sum[r][j] = *(const Vector*)(sums.bias + place(column + WIDTH * j));
                __builtin_prefetch(into + r * sums.stride + place(column + WIDTH * j), 1);
            }
        for (int k = 0; k < inputs; k += abreast) {
            auto* weights = panel + PANEL * k + column * abreast;
            for (int r = 0; r < ROWS; ++r)
                for (int j = 0; j < ABREAST; ++j)
                    sum[r][j] = fold(x + r * inputs + k, weights + WIDTH * abreast * j, sum[r][j]);
        }
        for (int r = 0; r < ROWS; ++r)
            for (int j = 0; j < ABREAST; ++j)
                *(Vector*)(into + r * sums.stride + place(column + WIDTH * j)) = sum[r][j];
    }
};
// The same for any number of rows, in blocks.
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
#if defined(__AMX_BF16__)
// The same in half precision by tiles of 16 rows x 16 columns (Intel AMX): 32 inputs at once, so that their number is a
// multiple of 32.
auto add_tiles = [&](int rows, const Half* x, int inputs, const Half* panel, Sums sums) {
    enum { INPUTS = 4, WEIGHTS, MORE_WEIGHTS, SIDE = 16, DEPTH = 32 };  // tiles 0 to 3 hold the sums
    struct Shape { unsigned char palette, start, reserved[14]; unsigned short bytes[16]; unsigned char rows[16]; };
    auto set_rows = [](int rows) {
        Shape shape = {1};
        for (int tile = 0; tile < 8; ++tile) shape.bytes[tile] = 64, shape.rows[tile] = tile < WEIGHTS ? rows : SIDE;
        __builtin_ia32_tile_loadconfig(&shape);
    };
    for (int first = 0; first < rows; first += SIDE) {
        const int count = rows - first < SIDE ? rows - first : SIDE;
        if (first == 0 || count < SIDE) set_rows(count);
        // A stride of 0 repeats the bias in every row.
        __builtin_ia32_tileloadd64(0, sums.bias, 0);
        __builtin_ia32_tileloadd64(1, sums.bias + sums.apart, 0);
        __builtin_ia32_tileloadd64(2, sums.bias + 2 * sums.apart, 0);
        __builtin_ia32_tileloadd64(3, sums.bias + 3 * sums.apart, 0);
        for (int k = 0; k < inputs; k += DEPTH) {
            const Half* weights = panel + PANEL * k;
            __builtin_ia32_tileloadd64(INPUTS, x + (long)first * inputs + k, 2 * inputs);
            __builtin_ia32_tileloadd64(WEIGHTS, weights, 4 * PANEL);
            __builtin_ia32_tdpbf16ps(0, INPUTS, WEIGHTS);
            __builtin_ia32_tileloadd64(MORE_WEIGHTS, weights + DEPTH, 4 * PANEL);
            __builtin_ia32_tdpbf16ps(1, INPUTS, MORE_WEIGHTS);
            __builtin_ia32_tileloadd64(WEIGHTS, weights + 2 * DEPTH, 4 * PANEL);
            __builtin_ia32_tdpbf16ps(2, INPUTS, WEIGHTS);
            __builtin_ia32_tileloadd64(MORE_WEIGHTS, weights + 3 * DEPTH, 4 * PANEL);
            __builtin_ia32_tdpbf16ps(3, INPUTS, MORE_WEIGHTS);
        }
        float* into = sums.into + (long)first * sums.stride;
        __builtin_ia32_tilestored64(0, into, 4 * sums.stride);
        __builtin_ia32_tilestored64(1, into + sums.apart, 4 * sums.stride);
        __builtin_ia32_tilestored64(2, into + 2 * sums.apart, 4 * sums.stride);
        __builtin_ia32_tilestored64(3, into + 3 * sums.apart, 4 * sums.stride);
    }
    __builtin_ia32_tilerelease();
};
#endif
// Writes 16 factors at index `at`, rounded to bfloat16 in half precision.
auto write_factor = [](bool half, float* into, long at, Lanes values) {
#if defined(__AVX512BF16__)
    if (half) {
        *(Halves*)((Half*)into + at) = __builtin_convertvector(values, Halves);
        return;
    }
#endif
    *(Lanes*)(into + at) = values;
};

// Loads up to 16 floats, padded with zeros.
auto load = [](const float* from, int count) {
    if (count >= LANES) return *(const Lanes*)from;
    Lanes some = (Lanes)(0.0f);
    for (int i = 0; i < count; ++i) some[i] = from[i];
    return some;
};
// Writes up to 16 factors.
auto write_factors = [&](bool half, float* into, long at, Lanes values, int count) {
    if (count >= LANES) return write_factor(half, into, at, values);
    for (int i = 0; i < count; ++i)
#if defined(__AVX512BF16__)
        if (half)
            ((Half*)into)[at + i] = __builtin_convertvector(values, Halves)[i];
        else
#endif
            into[at + i] = values[i];
};
struct Tile { Lanes rows[LANES]; };
// Transposes a 16 x 16 tile by interleaving its upper and lower half four times.
auto transpose = [](Tile tile) {
    for (int round = 0; round < 4; ++round) {
        const Tile before = tile;
        for (int i = 0; i < LANES / 2; ++i) {
            const Lanes one = before.rows[i], other = before.rows[i + LANES / 2];
            tile.rows[2 * i] =
                __builtin_shufflevector(one, other, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            tile.rows[2 * i + 1] =
                __builtin_shufflevector(one, other, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
    }
    return tile;
};
// Consecutive panels of weights with `inputs` inputs each.
struct Panels { float* memory; int inputs; bool half, tiles; };
// Multiplies rows of `x`, starting at row `first`, with a panel.
auto multiply = [&](int rows, const float* x, long first, Panels panels, int panel, Sums sums) {
    const long seen = first * panels.inputs, begin = (long)panel * panels.inputs * PANEL;
#if defined(__AVX512BF16__)
    if (panels.half) {
        const Half *halves = (const Half*)x + seen, *weights = (const Half*)panels.memory + begin;
#if defined(__AMX_BF16__)
        if (panels.tiles && panels.inputs % 32 == 0) return add_tiles(rows, halves, panels.inputs, weights, sums);
#endif
        return add_rows(fold_pair, 2, rows, halves, panels.inputs, weights, sums);
    }
#endif
    add_rows(fold, 1, rows, x + seen, panels.inputs, panels.memory + begin, sums);
};
// Writes a tile, one row of weights per input, into a panel at this input and column.
auto place_tile = [](const Tile& tile, int rows, Panels panels, int panel, int input, int column) {
    const long first = ((long)panel * panels.inputs + input) * PANEL;
#if defined(__AVX512BF16__)
    if (panels.half) {
        for (int i = 0; i < rows; i += 2) {
            const Halves one = __builtin_convertvector(tile.rows[i], Halves);
            const Halves other = __builtin_convertvector(tile.rows[i + 1], Halves);
            *(Pairs*)((Half*)panels.memory + first + i * PANEL + 2 * column) =
                __builtin_shufflevector(one, other, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,  //
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        return;
    }
#endif
    for (int i = 0; i < rows; ++i) *(Lanes*)(panels.memory + first + i * PANEL + column) = tile.rows[i];
};
// Copies the weights of 16 outputs (rows of the matrix) into a panel at this input and column.
auto pack_outputs = [&](const float* weights, int columns, Panels panels, int panel, int input, int column) {
    for (int at = 0; at < columns; at += LANES) {
        Tile tile;
        for (int i = 0; i < LANES; ++i) tile.rows[i] = load(weights + (long)i * columns + at, columns - at);
        const int rows = columns - at < LANES ? columns - at : LANES;
        place_tile(transpose(tile), rows, panels, panel, input + at, column);
    }
};
// Copies weights with one row of `columns` numbers per input into panels, starting at index `panel`.
auto pack_inputs = [&](const float* weights, int columns, Panels panels, int panel) {
    for (int input = 0; input < panels.inputs; input += LANES)
        for (int column = 0; column < filled_up(columns); column += LANES) {
            Tile tile;
            for (int i = 0; i < LANES; ++i)
                tile.rows[i] = load(weights + (long)(input + i) * columns + column, columns - column);
            place_tile(tile, LANES, panels, panel + column / PANEL, input, column % PANEL);
        }
};
