// Common part of all CPU kernels, included before each of them: register widths, arithmetic on 16 floats, and threads.

#if defined(__AVX512F__)
enum { WIDTH = 16, BLOCK = 6, ABREAST = 4 };  // floats in a register; rows x registers whose sums stay in registers
#elif defined(__AVX__)
enum { WIDTH = 8, BLOCK = 6, ABREAST = 2 };
#else
enum { WIDTH = 4, BLOCK = 4, ABREAST = 4 };
#endif
enum { LANES = 16, PANEL = 64 };
typedef float Vector __attribute__((ext_vector_type(WIDTH), aligned(4), may_alias));
typedef float Lanes __attribute__((ext_vector_type(LANES), aligned(4), may_alias));
typedef int Whole __attribute__((ext_vector_type(LANES)));

// a b + c, with a single rounding if the processor has fused multiply-add.
auto multiply_add = [](auto a, auto b, auto c) {
#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA)
    return __builtin_elementwise_fma(a, b, c);
#else
    return a * b + c;
#endif
};
// e^y = 2^n e^r with |r| <= ln(2) / 2 for |y| <= 88, and e^r = 1 + r + r^2 p(r), the latter Cephes' polynomial; exact to 2
// units in the last place.
struct Power { Lanes of_two, r, p; };
auto power = [&](Lanes y) {
    const Lanes n = __builtin_elementwise_roundeven(y * 1.44269504f);
    const Lanes r = multiply_add(n, (Lanes)(2.12194440e-4f), multiply_add(n, (Lanes)(-0.693359375f), y));
    Lanes p = (Lanes)(1.9875691500e-4f);
    p = multiply_add(p, r, (Lanes)(1.3981999507e-3f));
    p = multiply_add(p, r, (Lanes)(8.3334519073e-3f));
    p = multiply_add(p, r, (Lanes)(4.1665795894e-2f));
    p = multiply_add(p, r, (Lanes)(1.6666665459e-1f));
    p = multiply_add(p, r, (Lanes)(5.0000001201e-1f));
    return Power{__builtin_bit_cast(Lanes, (__builtin_convertvector(n, Whole) + 127) << 23), r, p};
};
auto within = [](Lanes x, float low, float high) {
    return __builtin_elementwise_min(__builtin_elementwise_max(x, (Lanes)(low)), (Lanes)(high));
};
auto sigmoid = [&](Lanes x) {
    const Power e = power(within(-x, -87.0f, 87.0f));
    return 1.0f / multiply_add(multiply_add(e.p, e.r * e.r, e.r + 1.0f), e.of_two, (Lanes)(1.0f));
};
auto tanh = [&](Lanes x) { return multiply_add(sigmoid(x + x), (Lanes)(2.0f), (Lanes)(-1.0f)); };

struct One { enum { count = 1 }; };
struct Two { enum { count = 2 }; };
struct Three { enum { count = 3 }; };
struct Four { enum { count = 4 }; };
struct Five { enum { count = 5 }; };
struct Six { enum { count = 6 }; };

// OpenMP, as libgomp has it.
typedef int Count;  // Warp makes a macro of `int` before a parenthesis
typedef void Together(void (*)(void*), void*, unsigned, unsigned);  // GOMP_parallel
typedef Count Member();                                             // omp_get_thread_num, omp_get_num_threads
// Runs take(0) to take(parts - 1) on a team of threads.
auto share_out = [](auto& take, int parts, Together* together, Member* member, Member* members) {
    struct Team { decltype(&take) take; Member *member, *members; int parts; };
    Team team = {&take, member, members, parts};
    auto work = [](void* given) {
        Team& team = *(Team*)given;
        for (int part = team.member(); part < team.parts; part += team.members()) (*team.take)(part);
    };
    together(work, &team, parts, 0);
};
