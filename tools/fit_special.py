"""Prints core/kernel/special_tables.h: Chebyshev expansions of the smooth parts of the special functions.

usage: fit_special.py > core/kernel/special_tables.h        (needs mpmath; takes a minute)

Every entry of TABLES is a function of u in [0, 1], computed with 50 digits at Chebyshev nodes; the expansion in
T_k(2u - 1) is cut where the coefficients no longer matter in fp64.
"""

import mpmath as mp

mp.mp.dps = 50
NODES = 72
TINY = mp.mpf(10) ** -12  # stands for u = 0 where a function has only a limit there


def hankel(order, even):
    """P (even) or Q of DLMF 10.17.3, as a function of u = (8/x)^2; Q divided by 8/x."""
    def value(u):
        ratio = mp.sqrt(u)
        x = 8 / ratio
        chi = x - mp.mpf(2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        scale = mp.sqrt(mp.pi * x / 2)
        if even:
            return scale * (j * mp.cos(chi) + y * mp.sin(chi))
        return scale * (y * mp.cos(chi) - j * mp.sin(chi)) / ratio
    return value


def airy_phase(even):
    """The factors of the cosine and the sine in Ai(-x), DLMF 9.7.9, as functions of u = (zeta(4)/zeta)^2."""
    def value(u):
        ratio = mp.sqrt(u)
        x = 4 / mp.cbrt(ratio) ** 2
        angle = mp.mpf(2) / 3 * x * mp.sqrt(x) - mp.pi / 4
        a, b = mp.airyai(-x), mp.airybi(-x)
        scale = mp.sqrt(mp.pi) * mp.root(x, 4)
        if even:
            return scale * (a * mp.cos(angle) - b * mp.sin(angle))
        return scale * (a * mp.sin(angle) + b * mp.cos(angle)) / ratio
    return value


def airy_tail(u):
    """2 sqrt(pi) x^(1/4) exp(zeta) Ai(x), u = zeta(2)/zeta."""
    x = 2 / mp.cbrt(u) ** 2
    zeta = mp.mpf(2) / 3 * x * mp.sqrt(x)
    return 2 * mp.sqrt(mp.pi) * mp.root(x, 4) * mp.exp(zeta) * mp.airyai(x)


def erfcx_part(u):
    x = 4 / u - 4
    return mp.exp(x * x) * mp.erfc(x) / u


def of_x(limit, function):
    return lambda u: function(max(u, TINY) * limit)


def of_square(limit, function):
    return lambda u: function(mp.sqrt(max(u, TINY)) * limit)


def of_inverse(limit, function):
    return lambda u: function(limit / max(u, mp.mpf(10) ** -6))


TABLES = {
    "erfcx": ("exp(x^2) erfc(x) / u, u = 4 / (4 + x)", lambda u: erfcx_part(max(u, mp.mpf(10) ** -6))),
    "i0_near": ("exp(-x) I0(x), u = x / 8", of_x(8, lambda x: mp.exp(-x) * mp.besseli(0, x))),
    "i0_far": ("exp(-x) sqrt(x) I0(x), u = 8 / x", of_inverse(8, lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(0, x))),
    "i1_near": ("exp(-x) I1(x) / x, u = x / 8", of_x(8, lambda x: mp.exp(-x) * mp.besseli(1, x) / x)),
    "i1_far": ("exp(-x) sqrt(x) I1(x), u = 8 / x", of_inverse(8, lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(1, x))),
    "j0_near": ("J0(x), u = (x / 8)^2", of_square(8, lambda x: mp.besselj(0, x))),
    "j1_near": ("J1(x) / x, u = (x / 8)^2", of_square(8, lambda x: mp.besselj(1, x) / x)),
    "y0_near": ("Y0(x) - 2/pi ln(x) J0(x), u = (x / 8)^2",
                of_square(8, lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x))),
    "y1_near": ("(Y1(x) - 2/pi (ln(x) J1(x) - 1/x)) / x, u = (x / 8)^2",
                of_square(8, lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x)),
    "p0": ("P of order 0, u = (8 / x)^2", lambda u: hankel(0, True)(max(u, TINY))),
    "q0": ("Q of order 0 times x / 8, u = (8 / x)^2", lambda u: hankel(0, False)(max(u, TINY))),
    "p1": ("P of order 1, u = (8 / x)^2", lambda u: hankel(1, True)(max(u, TINY))),
    "q1": ("Q of order 1 times x / 8, u = (8 / x)^2", lambda u: hankel(1, False)(max(u, TINY))),
    "k0_near": ("K0(x) + ln(x/2) I0(x), u = (x / 2)^2",
                of_square(2, lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x))),
    "k0_far": ("exp(x) sqrt(x) K0(x), u = 2 / x", of_inverse(2, lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(0, x))),
    "k1_near": ("(K1(x) - ln(x/2) I1(x) - 1/x) / x, u = (x / 2)^2",
                of_square(2, lambda x: (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x) - 1 / x) / x)),
    "k1_far": ("exp(x) sqrt(x) K1(x), u = 2 / x", of_inverse(2, lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(1, x))),
    "airy_near": ("Ai(x), u = (x + 4) / 6", lambda u: mp.airyai(6 * u - 4)),
    "airy_far": ("2 sqrt(pi) x^(1/4) exp(zeta) Ai(x), u = (2 / x)^(3/2)", lambda u: airy_tail(max(u, mp.mpf(10) ** -9))),
    "airy_cosine": ("factor of cos(zeta - pi/4) in sqrt(pi) x^(1/4) Ai(-x), u = (4 / x)^3",
                    lambda u: airy_phase(True)(max(u, TINY))),
    "airy_sine": ("factor of sin(zeta - pi/4) times (x / 4)^(3/2), u = (4 / x)^3",
                  lambda u: airy_phase(False)(max(u, TINY))),
}


def expand(function):
    angles = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    values = [function((mp.cos(angle) + 1) / 2) for angle in angles]
    coefficients = [2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles)) / NODES for j in range(NODES)]
    coefficients[0] /= 2
    least = max(abs(v) for v in values) * mp.mpf(2) ** -57
    last = max(j for j, c in enumerate(coefficients) if abs(c) > least)
    return coefficients[:last + 1]


def main():
    print("""/* Chebyshev expansions of the smooth parts of the special functions: f(u) = sum of c[k] T_k(2u - 1) for u in
 * [0, 1]. Written by tools/fit_special.py. */
#ifndef TN_KERNEL_SPECIAL_TABLES_H
#define TN_KERNEL_SPECIAL_TABLES_H
""")
    for name, (meaning, function) in TABLES.items():
        print(f"/* {meaning} */\nstatic const double table_{name}[] = {{")
        numbers = [float(c).hex().replace("p+", "p") for c in expand(function)]
        for i in range(0, len(numbers), 3):
            print("    " + ", ".join(numbers[i:i + 3]) + ",")
        print("};\n")
    print("#endif")


if __name__ == "__main__":
    main()
