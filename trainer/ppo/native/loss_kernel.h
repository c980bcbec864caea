// What a minibatch's decisions come to under the present weights: the loss, its gradient and its figures, on one core;
// the body of a function, built behind arena/policies/native/simd.h.
//
// Its arguments are `sizes` and `addresses`, as trainer/ppo/native/loss_kernel.py fills them. Formulas are those of
// arena/policies/nn/distributions.py and trainer/ppo/losses.py. 16 decisions are taken at once, one in each lane: through all
// heads to the ratio, and back to every parameter. Sums over decisions are in double precision.
//
// What is not a number stays so up to the loss or its gradient: there it is found. Hence comparisons in place of minima
// and maxima, which would drop it, and products with 0 or 1 in place of choices in gradients, as torch has them.

enum Kind { GAUSSIAN, BERNOULLI, CATEGORICAL };
struct Head { int kind, size, masked; };
struct Rules {
    float lowest, highest, clip;           // ratios that are not clipped, and how far that is from 1
    float value_clip, value_huber;         // 0 for none
    float log_ratio_limit, low_alarm, high_alarm;
    float illegal;                         // logit of an illegal option
};
struct Call {
    const Head* heads;           // (H)
    const Rules* rules;
    const long* chosen;          // (n): rows of `parameters` and `value` that decisions have; null where n is N
    const float* weights;        // (H + 1): of each head's entropy, and of the critic's loss
    const float* parameters;     // (N, P)
    const float* value;          // (N)
    const float* log_std;        // (G)
    const unsigned char* mask;   // (n, M)
    const float* raw;            // (n, A)
    const float* log_prob;       // (n, H): when the decision was made
    const float* noise;          // (n, G)
    const float* old_value;      // (n)
    const float* advantage;      // (n)
    const float* target;         // (n)
    float* loss;                 // (1)
    float* figures;              // as `Figures.row` has them
    float* of_parameters;        // (N, P), zeros: the loss's gradient with respect to the parameters
    float* of_value;             // (N), zeros: with respect to the value
    float* of_log_std;           // (G)
    float* lanes;                // (2 P + 4 G + H, 16): scratch
    double* sums;                // (SINGLE + 4 H + G, 16), zeros: scratch
};
struct Sizes { int decisions, heads, parameters, raw, mask, log_stds; };
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
const Rules rules = *call.rules;

typedef double Doubles __attribute__((ext_vector_type(LANES), aligned(8), may_alias));

// x, where x is not a number; otherwise what was made of it.
auto unless_nan = [](Lanes x, Lanes made) { return x == x ? made : x; };
auto size_of = [](Lanes x) { return x < 0.0f ? -x : x; };
auto bounded = [](Lanes x, float low, float high) { return x < low ? (Lanes)(low) : (x > high ? (Lanes)(high) : x); };
auto as_factor = [](Whole condition) { return condition ? (Lanes)(1.0f) : (Lanes)(0.0f); };

// e^x up to e^88, and at least e^-87.
auto exponential = [&](Lanes x) {
    const Power e = power(within(x, -87.0f, 88.0f));
    return unless_nan(x, multiply_add(e.p, e.r * e.r, e.r + 1.0f) * e.of_two);
};
// e^x - 1 - x, which for small x loses nothing.
auto beyond_linear = [&](Lanes x) {
    const Power e = power(within(x, -87.0f, 88.0f));
    const Lanes whole = multiply_add(e.p, e.r * e.r, e.r + 1.0f) * e.of_two - 1.0f - x;
    return unless_nan(x, e.of_two == 1.0f ? e.p * e.r * e.r : whole);
};
// 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...) for |s| <= 1/3.
auto twice_artanh = [&](Lanes s) {
    const Lanes t = s * s;
    Lanes p = (Lanes)(1.0f / 15.0f);
    p = multiply_add(p, t, (Lanes)(1.0f / 13.0f));
    p = multiply_add(p, t, (Lanes)(1.0f / 11.0f));
    p = multiply_add(p, t, (Lanes)(1.0f / 9.0f));
    p = multiply_add(p, t, (Lanes)(1.0f / 7.0f));
    p = multiply_add(p, t, (Lanes)(1.0f / 5.0f));
    p = multiply_add(p, t, (Lanes)(1.0f / 3.0f));
    return multiply_add(p * t, s, s) * 2.0f;
};
// ln(1 + x) for x in [0, 1].
auto log_1_and = [&](Lanes x) { return twice_artanh(x / (x + 2.0f)); };
// ln(x) for x >= 1 = 2^n m with m within a factor of sqrt(2) around 1.
auto logarithm = [&](Lanes x) {
    const Whole bits = __builtin_bit_cast(Whole, x), n = (bits - 0x3f3504f3) >> 23;
    const Lanes m = __builtin_bit_cast(Lanes, bits - (n << 23));
    const Lanes log_m = twice_artanh((m - 1.0f) / (m + 1.0f));
    return unless_nan(x, multiply_add(__builtin_convertvector(n, Lanes), (Lanes)(0.693147181f), log_m));
};

// Sums over decisions, one for each lane. Those of heads stand figure by figure.
enum { APPROX_KL, CLIPFRAC, RATIO_DEVIATION, POLICY_LOSS, VALUE_LOSS, ENTROPY, RATIO_ALARMS, BONUS, SINGLE };
enum { MEANS = RATIO_ALARMS };
enum { SAMPLES, HEAD_APPROX_KL, HEAD_CLIPFRAC, HEAD_ENTROPY, OF_HEADS };
Doubles* const sums = (Doubles*)call.sums;
Doubles* const sums_of_heads = sums + SINGLE;
Doubles* const sums_of_log_std = sums_of_heads + OF_HEADS * size.heads;
auto add = [](Doubles* sum, Whole counts, Lanes x) {
    *sum += __builtin_convertvector(counts ? x : (Lanes)(0.0f), Doubles);
};
auto total = [](const Doubles* sum) {
    double all = 0.0;
    for (int lane = 0; lane < LANES; ++lane) all += (*sum)[lane];
    return all;
};

// Of every parameter and log standard deviation: how the log-probability and the entropy of its head change with it.
struct Slopes { Lanes log_prob, entropy; };
Slopes* const by_parameter = (Slopes*)call.lanes;
Slopes* const by_log_std = by_parameter + size.parameters;
struct Spread { Lanes std, inverse; };
Spread* const spreads = (Spread*)(by_log_std + size.log_stds);
Lanes* const relevant = (Lanes*)(spreads + size.log_stds);  // of every head: 1 or 0
for (int g = 0; g < size.log_stds; ++g) {
    const Lanes log_std = (Lanes)(call.log_std[g]);
    spreads[g] = {exponential(log_std), exponential(-log_std)};
}

// Up to 16 decisions. Lanes beyond the last one repeat it and do not count.
struct Group { int first, count; Whole counts; long row[LANES]; };
Group group;
auto open_group = [&](int first) {
    group.first = first;
    group.count = size.decisions - first < LANES ? size.decisions - first : LANES;
    for (int lane = 0; lane < LANES; ++lane) {
        const int decision = first + (lane < group.count ? lane : group.count - 1);
        group.row[lane] = call.chosen ? call.chosen[decision] : decision;
        group.counts[lane] = lane < group.count ? -1 : 0;
    }
};
auto decision_of = [&](int lane) { return (long)group.first + (lane < group.count ? lane : group.count - 1); };
auto column = [&](const float* of_decisions, int width, int place) {
    Lanes x;
    for (int lane = 0; lane < LANES; ++lane) x[lane] = of_decisions[decision_of(lane) * width + place];
    return x;
};
auto column_of_rows = [&](const float* of_rows, int width, int place) {
    Lanes x;
    for (int lane = 0; lane < LANES; ++lane) x[lane] = of_rows[group.row[lane] * width + place];
    return x;
};
auto put = [&](float* of_rows, int width, int place, Lanes x) {
    for (int lane = 0; lane < group.count; ++lane) of_rows[group.row[lane] * width + place] = x[lane];
};
// Whether a dimension matters, a switch may be on, an option may be chosen: 1 or 0.
auto free_of = [&](const Head& head, int place) {
    Lanes x = (Lanes)(1.0f);
    if (head.masked)
        for (int lane = 0; lane < LANES; ++lane) x[lane] = call.mask[decision_of(lane) * size.mask + place];
    return x;
};

struct Place { int parameter, raw, mask, log_std; };  // where a head's own columns begin
struct Decided { Lanes log_prob, entropy, free; };    // of a head; `free`: how many dimensions, switches or options
// ln(1 - tanh(u)^2) and tanh(u), both by e^(-2 |u|).
struct Squashed { Lanes log_slope, value; };
auto squash = [&](Lanes u) {
    const Lanes far = size_of(u), e = exponential(-2.0f * far), value = (1.0f - e) / (1.0f + e);
    return Squashed{2.0f * (0.693147181f - far - log_1_and(e)), u < 0.0f ? -value : value};
};
auto gaussian = [&](const Head& head, Place at) {
    const float half_log_2_pi = 0.918938533f;
    Decided sum = {};
    for (int d = 0; d < head.size; ++d) {
        const Lanes free = free_of(head, at.mask + d), log_std = (Lanes)(call.log_std[at.log_std + d]);
        const Spread spread = spreads[at.log_std + d];
        const Lanes mean = column_of_rows(call.parameters, size.parameters, at.parameter + d);
        const Lanes raw = column(call.raw, size.raw, at.raw + d);
        const Lanes z = (raw - mean) * spread.inverse;
        const Lanes wide = spread.std * column(call.noise, size.log_stds, at.log_std + d);
        const Squashed drawn = squash(mean + wide);
        const Lanes log_prob = -0.5f * z * z - log_std - half_log_2_pi - squash(raw).log_slope;
        const Lanes entropy = 0.5f + half_log_2_pi + log_std + drawn.log_slope;
        sum.log_prob += free != 0.0f ? log_prob : (Lanes)(0.0f);
        sum.entropy += free != 0.0f ? entropy : (Lanes)(0.0f);
        sum.free += free;
        const Lanes narrower = -2.0f * drawn.value;
        by_parameter[at.parameter + d] = {free * z * spread.inverse, free * narrower};
        by_log_std[at.log_std + d] = {free * (z * z - 1.0f), free * multiply_add(narrower, wide, (Lanes)(1.0f))};
    }
    return sum;
};
auto bernoulli = [&](const Head& head, Place at) {
    Decided sum = {};
    for (int d = 0; d < head.size; ++d) {
        const Lanes free = free_of(head, at.mask + d);
        const Lanes logit = column_of_rows(call.parameters, size.parameters, at.parameter + d);
        const Lanes raw = column(call.raw, size.raw, at.raw + d);
        const Lanes far = size_of(logit), e = exponential(-far), less = log_1_and(e), unlikely = e / (1.0f + e);
        const Lanes on = logit < 0.0f ? unlikely : 1.0f - unlikely;
        const Lanes rectified = logit < 0.0f ? (Lanes)(0.0f) : logit;
        sum.log_prob += free != 0.0f ? logit * raw - rectified - less : (Lanes)(0.0f);
        sum.entropy += free != 0.0f ? multiply_add(far, unlikely, less) : (Lanes)(0.0f);
        sum.free += free;
        by_parameter[at.parameter + d] = {free * (raw - on), -free * logit * unlikely * (1.0f - unlikely)};
    }
    return sum;
};
// Its log-probabilities pass through the place of their slopes.
auto categorical = [&](const Head& head, Place at) {
    Slopes* const slopes = by_parameter + at.parameter;
    Lanes free = (Lanes)(0.0f), most = (Lanes)(-__builtin_inff()), powers = (Lanes)(0.0f);
    for (int k = 0; k < head.size; ++k) {
        const Lanes legal = free_of(head, at.mask + k);
        const Lanes logit = column_of_rows(call.parameters, size.parameters, at.parameter + k);
        slopes[k].log_prob = legal != 0.0f ? logit : (Lanes)(rules.illegal);
        most = slopes[k].log_prob > most ? slopes[k].log_prob : most;
        free += legal;
    }
    for (int k = 0; k < head.size; ++k) powers += exponential(slopes[k].log_prob - most);
    const Lanes log_powers = logarithm(powers), raw = column(call.raw, size.raw, at.raw);
    const Lanes full = logarithm(free < 2.0f ? (Lanes)(2.0f) : free);
    Lanes chosen = (Lanes)(0.0f), entropy = (Lanes)(0.0f);
    for (int k = 0; k < head.size; ++k) {
        const Lanes log_prob = slopes[k].log_prob - most - log_powers;
        chosen = raw == (float)k ? log_prob : chosen;
        entropy -= exponential(log_prob) * log_prob;
        slopes[k].log_prob = log_prob;
    }
    for (int k = 0; k < head.size; ++k) {
        const Lanes legal = free_of(head, at.mask + k), log_prob = slopes[k].log_prob, chance = exponential(log_prob);
        slopes[k] = {legal * (as_factor(raw == (float)k) - chance), -legal * chance * (log_prob + entropy) / full};
    }
    return Decided{chosen, entropy / full, free};
};
auto decide = [&](const Head& head, Place at) {
    switch (head.kind) {
        case GAUSSIAN: return gaussian(head, at);
        case BERNOULLI: return bernoulli(head, at);
        default: return categorical(head, at);
    }
};
auto had_to_decide = [&](const Head& head, Lanes free) {
    return !head.masked ? free == free : free > (head.kind == CATEGORICAL ? 1.0f : 0.0f);
};
auto behind = [](const Head& head, Place at) {
    const bool options = head.kind == CATEGORICAL, spread = head.kind == GAUSSIAN;
    return Place{at.parameter + head.size, at.raw + (options ? 1 : head.size), at.mask + (head.masked ? head.size : 0),
                 at.log_std + (spread ? head.size : 0)};
};

auto ratio_of = [&](Lanes log_ratio) {
    return exponential(bounded(log_ratio, -rules.log_ratio_limit, rules.log_ratio_limit));
};
auto kl_of = [&](Lanes log_ratio) {
    const Lanes limited = bounded(log_ratio, -rules.log_ratio_limit, rules.log_ratio_limit);
    const Lanes kl = beyond_linear(limited) + (limited - log_ratio);
    return kl < 0.0f ? (Lanes)(0.0f) : kl;
};
auto clipped = [&](Lanes ratio) { return size_of(ratio - 1.0f) > rules.clip; };

// The critic's error of a difference, and its slope.
struct Error { Lanes error, slope; };
auto error_of = [&](Lanes difference) {
    const float huber = rules.value_huber;
    if (huber == 0.0f) return Error{0.5f * difference * difference, difference};
    const Lanes far = size_of(difference), linear = huber * (far - 0.5f * huber);
    return Error{far <= huber ? 0.5f * difference * difference : linear, bounded(difference, -huber, huber)};
};
auto value_error = [&](Lanes value, Lanes target, Lanes old_value) {
    const Error error = error_of(value - target);
    if (rules.value_clip == 0.0f) return error;
    const Lanes moved = value - old_value;
    const Error held = error_of(old_value + bounded(moved, -rules.value_clip, rules.value_clip) - target);
    const Lanes moves = as_factor(size_of(moved) <= rules.value_clip);
    const Whole plain = error.error >= held.error;
    return Error{plain ? error.error : held.error, plain ? error.slope : held.slope * moves};
};
struct Surrogate { Lanes loss, by_log_ratio; };
auto surrogate = [&](Lanes log_ratio, Lanes ratio, Lanes advantage) {
    const Lanes free = ratio * advantage, held = bounded(ratio, rules.lowest, rules.highest) * advantage;
    const Lanes moves = as_factor((free <= held) & (size_of(log_ratio) <= rules.log_ratio_limit));
    return Surrogate{free <= held ? -free : -held, -free * moves};
};

const float share = 1.0f / size.decisions;
float largest_error = 0.0f;
auto appraise_group = [&] {
    Lanes joint = (Lanes)(0.0f), entropy = (Lanes)(0.0f), bonus = (Lanes)(0.0f);
    Place at = {};
    for (int h = 0; h < size.heads; ++h) {
        const Head head = call.heads[h];
        const Decided decided = decide(head, at);
        const Whole decides = had_to_decide(head, decided.free), counts = group.counts & decides;
        const Lanes log_ratio = decided.log_prob - column(call.log_prob, size.heads, h);
        relevant[h] = as_factor(decides);
        joint += decides ? log_ratio : (Lanes)(0.0f);
        entropy += decides ? decided.entropy : (Lanes)(0.0f);
        bonus += call.weights[h] * (decides ? decided.entropy : (Lanes)(0.0f));
        Doubles* const sum = sums_of_heads + h;
        add(sum + SAMPLES * size.heads, counts, (Lanes)(1.0f));
        add(sum + HEAD_APPROX_KL * size.heads, counts, kl_of(log_ratio));
        add(sum + HEAD_CLIPFRAC * size.heads, counts, as_factor(clipped(ratio_of(log_ratio))));
        add(sum + HEAD_ENTROPY * size.heads, counts, decided.entropy);
        at = behind(head, at);
    }
    const Lanes ratio = ratio_of(joint), deviation = size_of(ratio - 1.0f);
    const Surrogate policy = surrogate(joint, ratio, column(call.advantage, 1, 0));
    const Error value =
        value_error(column_of_rows(call.value, 1, 0), column(call.target, 1, 0), column(call.old_value, 1, 0));
    add(sums + APPROX_KL, group.counts, kl_of(joint));
    add(sums + CLIPFRAC, group.counts, as_factor(clipped(ratio)));
    add(sums + RATIO_DEVIATION, group.counts, deviation);
    add(sums + POLICY_LOSS, group.counts, policy.loss);
    add(sums + VALUE_LOSS, group.counts, value.error);
    add(sums + ENTROPY, group.counts, entropy);
    add(sums + RATIO_ALARMS, group.counts, as_factor((ratio < rules.low_alarm) | (ratio > rules.high_alarm)));
    add(sums + BONUS, group.counts, bonus);
    for (int lane = 0; lane < group.count; ++lane)
        if (largest_error == largest_error && !(deviation[lane] <= largest_error)) largest_error = deviation[lane];
    put(call.of_value, 1, 0, share * call.weights[size.heads] * value.slope);
    at = {};
    for (int h = 0; h < size.heads; ++h) {
        const Head head = call.heads[h];
        const Place end = behind(head, at);
        const Lanes by_log_prob = share * policy.by_log_ratio * relevant[h];
        const Lanes by_entropy = -share * call.weights[h] * relevant[h];
        auto through = [&](Slopes slopes) { return by_log_prob * slopes.log_prob + by_entropy * slopes.entropy; };
        for (int p = at.parameter; p < end.parameter; ++p)
            put(call.of_parameters, size.parameters, p, through(by_parameter[p]));
        for (int g = at.log_std; g < end.log_std; ++g) add(sums_of_log_std + g, group.counts, through(by_log_std[g]));
        at = end;
    }
};
for (int first = 0; first < size.decisions; first += LANES) {
    open_group(first);
    appraise_group();
}

auto mean = [&](int sum) { return total(sums + sum) / size.decisions; };
*call.loss = mean(POLICY_LOSS) + call.weights[size.heads] * mean(VALUE_LOSS) - mean(BONUS);
float* figure = call.figures;
*figure++ = largest_error;
for (int each = 0; each < MEANS; ++each) *figure++ = mean(each);
*figure++ = total(sums + RATIO_ALARMS);
for (int h = 0; h < size.heads; ++h) *figure++ = total(sums_of_heads + h);
for (int each = HEAD_APPROX_KL; each < OF_HEADS; ++each)
    for (int h = 0; h < size.heads; ++h)  // 0 / 0 where the head had nothing to decide
        *figure++ = total(sums_of_heads + each * size.heads + h) / total(sums_of_heads + h);
for (int g = 0; g < size.log_stds; ++g) call.of_log_std[g] = total(sums_of_log_std + g);
