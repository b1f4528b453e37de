/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as
 * 1, 2, 3"), and the functions that shape them.
 *
 * Word w of element group g of one op is word w of philox(key = seed, counter = (g, offset)): a number
 * depends on nothing but the seed, the op's offset and its own index, so any split over threads gives
 * the same bits. The functions are plain double arithmetic in a fixed order, without FMA and libm, so
 * that every instruction set gives the same numbers; all loops vectorise. */
#ifndef TN_KERNEL_PHILOX_H
#define TN_KERNEL_PHILOX_H

#include <stdint.h>
#include <string.h>

/* One group: four 32-bit words. */
static inline void tn_philox(uint64_t seed, uint64_t offset, uint64_t group, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)group, c1 = (uint32_t)(group >> 32);
    uint32_t c2 = (uint32_t)offset, c3 = (uint32_t)(offset >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

enum { TN_PHILOX_ROW = 64 }; /* groups that tn_philox_row computes side by side */

/* Groups [group, group + TN_PHILOX_ROW) into out[4 * TN_PHILOX_ROW], word order as in memory. */
static inline void tn_philox_row(uint64_t seed, uint64_t offset, uint64_t group, uint32_t *out)
{
    uint32_t c0[TN_PHILOX_ROW], c1[TN_PHILOX_ROW], c2[TN_PHILOX_ROW], c3[TN_PHILOX_ROW];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < TN_PHILOX_ROW; i++) {
        c0[i] = (uint32_t)(group + (uint64_t)i);
        c1[i] = (uint32_t)((group + (uint64_t)i) >> 32);
        c2[i] = (uint32_t)offset;
        c3[i] = (uint32_t)(offset >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < TN_PHILOX_ROW; i++) {
            uint64_t p0 = (uint64_t)c0[i] * 0xD2511F53u, p1 = (uint64_t)c2[i] * 0xCD9E8D57u;
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < TN_PHILOX_ROW; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

/* [0, 1) with 24 and 53 bits. */
static inline float tn_uniform24(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

static inline double tn_uniform53(uint32_t high, uint32_t low)
{
    return (double)(int64_t)((((uint64_t)high << 32) | low) >> 11) * 0x1p-53;
}

/* log of a normal positive double: m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)). */
static inline double tn_fixed_log(double x)
{
    int64_t bits, adjusted;
    memcpy(&bits, &x, 8);
    adjusted = bits - 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    int64_t exponent = adjusted >> 52;
    int64_t mantissa = bits - exponent * ((int64_t)1 << 52);
    double m;
    memcpy(&m, &mantissa, 8);
    double f = (m - 1) / (m + 1), s = f * f;
    double tail = 1.0 / 23;
    tail = tail * s + 1.0 / 21;
    tail = tail * s + 1.0 / 19;
    tail = tail * s + 1.0 / 17;
    tail = tail * s + 1.0 / 15;
    tail = tail * s + 1.0 / 13;
    tail = tail * s + 1.0 / 11;
    tail = tail * s + 1.0 / 9;
    tail = tail * s + 1.0 / 7;
    tail = tail * s + 1.0 / 5;
    tail = tail * s + 1.0 / 3;
    return (double)(int32_t)exponent * 0.693147180559945309417232121458 + 2 * (f + f * s * tail);
}

/* sin and cos of 2 pi u for u in [0, 1): a quarter turn is taken out, the rest is a Taylor series. */
static inline void tn_fixed_sincos(double u, double *out_sin, double *out_cos)
{
    int32_t quarter = (int32_t)(u * 4 + 0.5);
    double r = (u - (double)quarter * 0.25) * 6.28318530717958647692528676656, s = r * r;
    double sine = 1.0 / 355687428096000;
    sine = sine * s - 1.0 / 1307674368000;
    sine = sine * s + 1.0 / 6227020800;
    sine = sine * s - 1.0 / 39916800;
    sine = sine * s + 1.0 / 362880;
    sine = sine * s - 1.0 / 5040;
    sine = sine * s + 1.0 / 120;
    sine = sine * s - 1.0 / 6;
    sine = r + r * s * sine;
    double cosine = -1.0 / 6402373705728000;
    cosine = cosine * s + 1.0 / 20922789888000;
    cosine = cosine * s - 1.0 / 87178291200;
    cosine = cosine * s + 1.0 / 479001600;
    cosine = cosine * s - 1.0 / 3628800;
    cosine = cosine * s + 1.0 / 40320;
    cosine = cosine * s - 1.0 / 720;
    cosine = cosine * s + 1.0 / 24;
    cosine = cosine * s - 0.5;
    cosine = 1 + s * cosine;
    double first = quarter & 1 ? cosine : sine, second = quarter & 1 ? sine : cosine;
    *out_sin = quarter & 2 ? -first : first;
    *out_cos = (quarter + 1) & 2 ? -second : second;
}

/* exp, clamped to the range of a double. */
static inline double tn_fixed_exp(double x)
{
    double bounded = x > 709 ? 709 : x < -708 ? -708 : x;
    int32_t k = (int32_t)(bounded * 1.44269504088896340736 + (bounded < 0 ? -0.5 : 0.5));
    double r = bounded - (double)k * 6.93147180369123816490e-01;
    r = r - (double)k * 1.90821492927058770002e-10;
    double sum = 1.0 / 6227020800;
    sum = sum * r + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = 1 + r + r * r * sum;
    int64_t bits = ((int64_t)k + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, 8);
    return sum * scale;
}

#endif
