// PPO loss of a minibatch, with its gradient and metrics, on one core: the body of a function, compiled after
// arena/policies/native/simd.h.
//
// Arguments are `sizes` and `addresses`, in the order of trainer/ppo/native/loss_kernel.py. Formulas are those of
// arena/policies/nn/distributions.py and trainer/ppo/loss.py. Each SIMD lane holds one of 16 samples: forward through
// all heads to the ratio, then backward to every parameter. Sums over samples are in double precision.
//
// NaN propagates to the loss or its gradient, where the update detects it. Therefore comparisons replace min and max,
// which would drop NaN, and gradients multiply by 0 or 1 instead of selecting, as in torch.

enum Kind { GAUSSIAN, BERNOULLI, CATEGORICAL };
struct Head { int kind, size, masked; };
struct Rules {
    float lowest, highest, clip;           // 1 - clip, 1 + clip, clip
    float value_clip, value_huber;         // 0: none
    float log_ratio_limit, low_alarm, high_alarm;
    float illegal;                         // logit of an illegal option
};
struct Call {
    const Head* heads;           // (H)
    const Rules* rules;
    const long* loss_index;      // (n): rows of `parameters` and `value`; null if n is N
    const float* weights;        // (H + 1): weight of each head's entropy, negative, and of the value loss
    const float* parameters;     // (N, P)
    const float* value;          // (N)
    const float* log_std;        // (G)
    const unsigned char* mask;   // (n, M)
    const float* raw;            // (n, A)
    const float* log_prob;       // (n, H): under the policy that acted
    const float* noise;          // (n, G)
    const float* old_value;      // (n)
    const float* advantage;      // (n)
    const float* returns;        // (n)
    float* loss;                 // (1)
    float* metrics;              // as `MinibatchMetrics.row`
    float* grad_parameters;      // (N, P), zeros on entry
    float* grad_value;           // (N), zeros on entry
    float* grad_log_std;         // (G)
    float* lanes;                // (2 P + 4 G + H, 16): scratch
    double* sums;                // (SINGLE + 4 H + G, 16), zeros on entry: scratch
};
struct Sizes { int samples, heads, parameters, raw, mask, log_stds; };
const Call call = *(const Call*)addresses.data;
const Sizes size = *(const Sizes*)sizes.data;
const Rules rules = *call.rules;

typedef double Doubles __attribute__((ext_vector_type(LANES), aligned(8), may_alias));

// NaN if x is NaN, else y.
auto unless_nan = [](Lanes x, Lanes y) { return x == x ? y : x; };
auto magnitude = [](Lanes x) { return x < 0.0f ? -x : x; };
auto clamp = [](Lanes x, float low, float high) { return x < low ? (Lanes)(low) : (x > high ? (Lanes)(high) : x); };
auto as_factor = [](Whole condition) { return condition ? (Lanes)(1.0f) : (Lanes)(0.0f); };

// e^x for x clamped to [-87, 88].
auto exponential = [&](Lanes x) {
    const Power e = power(within(x, -87.0f, 88.0f));
    return unless_nan(x, multiply_add(e.p, e.r * e.r, e.r + 1.0f) * e.of_two);
};
// e^x - 1 - x, without loss of precision for small x.
auto expm1_minus_x = [&](Lanes x) {
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
auto log1p = [&](Lanes x) { return twice_artanh(x / (x + 2.0f)); };
// ln(x) for x >= 1 = 2^n m with m within a factor of sqrt(2) around 1.
auto logarithm = [&](Lanes x) {
    const Whole bits = __builtin_bit_cast(Whole, x), n = (bits - 0x3f3504f3) >> 23;
    const Lanes m = __builtin_bit_cast(Lanes, bits - (n << 23));
    const Lanes log_m = twice_artanh((m - 1.0f) / (m + 1.0f));
    return unless_nan(x, multiply_add(__builtin_convertvector(n, Lanes), (Lanes)(0.693147181f), log_m));
};

// Sums over samples, one per lane; sums of heads are grouped by metric, as in `MinibatchMetrics.row`.
enum { APPROX_KL, CLIPFRAC, RATIO_DEVIATION, POLICY_LOSS, VALUE_LOSS, ENTROPY, RATIO_ALARMS, BONUS, SINGLE };
enum { MEANS = RATIO_ALARMS };
enum { SAMPLES, HEAD_APPROX_KL, HEAD_CLIPFRAC, HEAD_ENTROPY, HEAD_SUMS };
Doubles* const sums = (Doubles*)call.sums;
Doubles* const head_sums = sums + SINGLE;
Doubles* const log_std_sums = head_sums + HEAD_SUMS * size.heads;
auto add = [](Doubles* sum, Whole mask, Lanes x) {
    *sum += __builtin_convertvector(mask ? x : (Lanes)(0.0f), Doubles);
};
auto total = [](const Doubles* sum) {
    double all = 0.0;
    for (int lane = 0; lane < LANES; ++lane) all += (*sum)[lane];
    return all;
};

// Derivatives of a head's log-probability and entropy by each of its parameters and log standard deviations.
struct Slopes { Lanes log_prob, entropy; };
Slopes* const by_parameter = (Slopes*)call.lanes;
Slopes* const by_log_std = by_parameter + size.parameters;
struct Spread { Lanes std, inverse; };
Spread* const spreads = (Spread*)(by_log_std + size.log_stds);
Lanes* const has_choice = (Lanes*)(spreads + size.log_stds);  // per head: 1 or 0
for (int g = 0; g < size.log_stds; ++g) {
    const Lanes log_std = (Lanes)(call.log_std[g]);
    spreads[g] = {exponential(log_std), exponential(-log_std)};
}

// Up to 16 samples. Lanes beyond the last sample repeat it and are masked out.
struct Group { int first, count; Whole mask; long row[LANES]; };
Group group;
auto open_group = [&](int first) {
    group.first = first;
    group.count = size.samples - first < LANES ? size.samples - first : LANES;
    for (int lane = 0; lane < LANES; ++lane) {
        const int sample = first + (lane < group.count ? lane : group.count - 1);
        group.row[lane] = call.loss_index ? call.loss_index[sample] : sample;
        group.mask[lane] = lane < group.count ? -1 : 0;
    }
};
auto sample_of = [&](int lane) { return (long)group.first + (lane < group.count ? lane : group.count - 1); };
auto column = [&](const float* of_samples, int width, int place) {
    Lanes x;
    for (int lane = 0; lane < LANES; ++lane) x[lane] = of_samples[sample_of(lane) * width + place];
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
// Action mask of a dimension, switch or option: 1 or 0.
auto mask_of = [&](const Head& head, int place) {
    Lanes x = (Lanes)(1.0f);
    if (head.masked)
        for (int lane = 0; lane < LANES; ++lane) x[lane] = call.mask[sample_of(lane) * size.mask + place];
    return x;
};

struct Offsets { int parameter, raw, mask, log_std; };  // first columns of a head
struct HeadOutput { Lanes log_prob, entropy, free; };   // free: number of unmasked dimensions, switches or options
// ln(1 - tanh(u)^2) and tanh(u), both by e^(-2 |u|).
struct Squashed { Lanes log_slope, value; };
auto squash = [&](Lanes u) {
    const Lanes far = magnitude(u), e = exponential(-2.0f * far), value = (1.0f - e) / (1.0f + e);
    return Squashed{2.0f * (0.693147181f - far - log1p(e)), u < 0.0f ? -value : value};
};
auto gaussian = [&](const Head& head, Offsets at) {
    const float half_log_2_pi = 0.918938533f;
    HeadOutput sum = {};
    for (int d = 0; d < head.size; ++d) {
        const Lanes free = mask_of(head, at.mask + d), log_std = (Lanes)(call.log_std[at.log_std + d]);
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
auto bernoulli = [&](const Head& head, Offsets at) {
    HeadOutput sum = {};
    for (int d = 0; d < head.size; ++d) {
        const Lanes free = mask_of(head, at.mask + d);
        const Lanes logit = column_of_rows(call.parameters, size.parameters, at.parameter + d);
        const Lanes raw = column(call.raw, size.raw, at.raw + d);
        const Lanes far = magnitude(logit), e = exponential(-far), less = log1p(e), unlikely = e / (1.0f + e);
        const Lanes on = logit < 0.0f ? unlikely : 1.0f - unlikely;
        const Lanes rectified = logit < 0.0f ? (Lanes)(0.0f) : logit;
        sum.log_prob += free != 0.0f ? logit * raw - rectified - less : (Lanes)(0.0f);
        sum.entropy += free != 0.0f ? multiply_add(far, unlikely, less) : (Lanes)(0.0f);
        sum.free += free;
        by_parameter[at.parameter + d] = {free * (raw - on), -free * logit * unlikely * (1.0f - unlikely)};
    }
    return sum;
};
// Log-probabilities are stored temporarily where their derivatives go.
auto categorical = [&](const Head& head, Offsets at) {
    Slopes* const slopes = by_parameter + at.parameter;
    Lanes free = (Lanes)(0.0f), most = (Lanes)(-__builtin_inff()), powers = (Lanes)(0.0f);
    for (int k = 0; k < head.size; ++k) {
        const Lanes legal = mask_of(head, at.mask + k);
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
        const Lanes legal = mask_of(head, at.mask + k), log_prob = slopes[k].log_prob, chance = exponential(log_prob);
        slopes[k] = {legal * (as_factor(raw == (float)k) - chance), -legal * chance * (log_prob + entropy) / full};
    }
    return HeadOutput{chosen, entropy / full, free};
};
auto evaluate = [&](const Head& head, Offsets at) {
    switch (head.kind) {
        case GAUSSIAN: return gaussian(head, at);
        case BERNOULLI: return bernoulli(head, at);
        default: return categorical(head, at);
    }
};
auto head_has_choice = [&](const Head& head, Lanes free) {
    return !head.masked ? free == free : free > (head.kind == CATEGORICAL ? 1.0f : 0.0f);
};
auto next_head = [](const Head& head, Offsets at) {
    const bool options = head.kind == CATEGORICAL, spread = head.kind == GAUSSIAN;
    return Offsets{at.parameter + head.size, at.raw + (options ? 1 : head.size),
                   at.mask + (head.masked ? head.size : 0), at.log_std + (spread ? head.size : 0)};
};

auto ratio_of = [&](Lanes log_ratio) {
    return exponential(clamp(log_ratio, -rules.log_ratio_limit, rules.log_ratio_limit));
};
auto kl_of = [&](Lanes log_ratio) {
    const Lanes limited = clamp(log_ratio, -rules.log_ratio_limit, rules.log_ratio_limit);
    const Lanes kl = expm1_minus_x(limited) + (limited - log_ratio);
    return kl < 0.0f ? (Lanes)(0.0f) : kl;
};
auto clipped = [&](Lanes ratio) { return magnitude(ratio - 1.0f) > rules.clip; };

// Huber's error of a difference, and its derivative.
struct Error { Lanes error, slope; };
auto huber_error = [&](Lanes difference) {
    const float huber = rules.value_huber;
    if (huber == 0.0f) return Error{0.5f * difference * difference, difference};
    const Lanes far = magnitude(difference), linear = huber * (far - 0.5f * huber);
    return Error{far <= huber ? 0.5f * difference * difference : linear, clamp(difference, -huber, huber)};
};
auto value_loss = [&](Lanes value, Lanes returns, Lanes old_value) {
    const Error error = huber_error(value - returns);
    if (rules.value_clip == 0.0f) return error;
    const Lanes moved = value - old_value;
    const Error held = huber_error(old_value + clamp(moved, -rules.value_clip, rules.value_clip) - returns);
    const Lanes moves = as_factor(magnitude(moved) <= rules.value_clip);
    const Whole plain = error.error >= held.error;
    return Error{plain ? error.error : held.error, plain ? error.slope : held.slope * moves};
};
struct Surrogate { Lanes loss, by_log_ratio; };
auto clipped_surrogate = [&](Lanes log_ratio, Lanes ratio, Lanes advantage) {
    const Lanes free = ratio * advantage, held = clamp(ratio, rules.lowest, rules.highest) * advantage;
    const Lanes moves = as_factor((free <= held) & (magnitude(log_ratio) <= rules.log_ratio_limit));
    return Surrogate{free <= held ? -free : -held, -free * moves};
};

const float share = 1.0f / size.samples;
float largest_error = 0.0f;
auto process_group = [&] {
    Lanes joint = (Lanes)(0.0f), entropy = (Lanes)(0.0f), bonus = (Lanes)(0.0f);
    Offsets at = {};
    for (int h = 0; h < size.heads; ++h) {
        const Head head = call.heads[h];
        const HeadOutput output = evaluate(head, at);
        const Whole choice = head_has_choice(head, output.free), mask = group.mask & choice;
        const Lanes log_ratio = output.log_prob - column(call.log_prob, size.heads, h);
        has_choice[h] = as_factor(choice);
        joint += choice ? log_ratio : (Lanes)(0.0f);
        entropy += choice ? output.entropy : (Lanes)(0.0f);
        bonus -= call.weights[h] * (choice ? output.entropy : (Lanes)(0.0f));
        Doubles* const sum = head_sums + h;
        add(sum + SAMPLES * size.heads, mask, (Lanes)(1.0f));
        add(sum + HEAD_APPROX_KL * size.heads, mask, kl_of(log_ratio));
        add(sum + HEAD_CLIPFRAC * size.heads, mask, as_factor(clipped(ratio_of(log_ratio))));
        add(sum + HEAD_ENTROPY * size.heads, mask, output.entropy);
        at = next_head(head, at);
    }
    const Lanes ratio = ratio_of(joint), deviation = magnitude(ratio - 1.0f);
    const Surrogate policy = clipped_surrogate(joint, ratio, column(call.advantage, 1, 0));
    const Error value =
        value_loss(column_of_rows(call.value, 1, 0), column(call.returns, 1, 0), column(call.old_value, 1, 0));
    add(sums + APPROX_KL, group.mask, kl_of(joint));
    add(sums + CLIPFRAC, group.mask, as_factor(clipped(ratio)));
    add(sums + RATIO_DEVIATION, group.mask, deviation);
    add(sums + POLICY_LOSS, group.mask, policy.loss);
    add(sums + VALUE_LOSS, group.mask, value.error);
    add(sums + ENTROPY, group.mask, entropy);
    add(sums + RATIO_ALARMS, group.mask, as_factor((ratio < rules.low_alarm) | (ratio > rules.high_alarm)));
    add(sums + BONUS, group.mask, bonus);
    for (int lane = 0; lane < group.count; ++lane)
        if (largest_error == largest_error && !(deviation[lane] <= largest_error)) largest_error = deviation[lane];
    put(call.grad_value, 1, 0, share * call.weights[size.heads] * value.slope);
    at = {};
    for (int h = 0; h < size.heads; ++h) {
        const Head head = call.heads[h];
        const Offsets end = next_head(head, at);
        const Lanes by_log_prob = share * policy.by_log_ratio * has_choice[h];
        const Lanes by_entropy = share * call.weights[h] * has_choice[h];
        auto through = [&](Slopes slopes) { return by_log_prob * slopes.log_prob + by_entropy * slopes.entropy; };
        for (int p = at.parameter; p < end.parameter; ++p)
            put(call.grad_parameters, size.parameters, p, through(by_parameter[p]));
        for (int g = at.log_std; g < end.log_std; ++g) add(log_std_sums + g, group.mask, through(by_log_std[g]));
        at = end;
    }
};
for (int first = 0; first < size.samples; first += LANES) {
    open_group(first);
    process_group();
}

auto mean = [&](int sum) { return total(sums + sum) / size.samples; };
*call.loss = mean(POLICY_LOSS) + call.weights[size.heads] * mean(VALUE_LOSS) - mean(BONUS);
float* metric = call.metrics;
*metric++ = largest_error;
for (int each = 0; each < MEANS; ++each) *metric++ = mean(each);
*metric++ = total(sums + RATIO_ALARMS);
for (int h = 0; h < size.heads; ++h) *metric++ = total(head_sums + h);
for (int each = HEAD_APPROX_KL; each < HEAD_SUMS; ++each)
    for (int h = 0; h < size.heads; ++h)  // 0 / 0 is NaN: no samples
        *metric++ = total(head_sums + each * size.heads + h) / total(head_sums + h);
for (int g = 0; g < size.log_stds; ++g) call.grad_log_std[g] = total(log_std_sums + g);
