#!/usr/bin/env python3
"""Writes src/kernel/winograd_math.h: the transforms of Winograd's convolution with kernels of 3x3, as straight-line code.

    winograd.py                print the header
    winograd.py --check FILE   exit status 1 unless FILE is what would be printed

F(m, 3) computes m outputs of a correlation with 3 taps from n = m + 2 inputs and n products.  Cook and Toom: a product of
polynomials is known by its values at n points, one of which may be infinity; transposed, that is the correlation

    y = A' ((G g) * (B' d))        A'[k][i] = p_i^k,  G[i][k] = p_i^k / M_i(p_i),  B'[i] = coefficients of M_i

where M_i is the product of (x - p_j) over the other finite points.  At infinity A' has its last row, G its last tap, and B'
the product over all points.  All arithmetic here is exact, and so is every constant of the transforms as a float.

Points come as 0, pairs +q and -q, infinity.  With P(z) the product of (z - q^2), and Q(z) the same without one pair,

    M_0(x) = P(x^2)        M_(+-q)(x) = x^2 Q(x^2) +- q x Q(x^2)        M_inf(x) = x P(x^2)

so the two rows of a pair share an even and an odd half, and in A' a pair's sum and difference do the same.

Fewer outputs than m need fewer products, and the same G serves them: leave points out.  Without infinity, the last output goes
and nothing else changes.  Without the pair of r, two outputs go, and M_i shrinks to M_i / (x^2 - r^2), so that the products,
which have G's 1 / M_i(p_i), are to be multiplied by p_i^2 - r^2.  Tiles at the end of an image that has no whole number of
tiles are such.
"""

import argparse
import sys
from fractions import Fraction

# Outputs -> pairs of points: dyadic, so that the constants are exact, and of the smallest error that was measured among
# those of 3/8, 1/2, 5/8, 3/4, 7/8, 1, 5/4, 3/2, 7/4, 2.  (4 outputs from 1 and 2 have twice to three times the error.)
SIZES = {2: [Fraction(1)], 4: [Fraction(5, 8), Fraction(3, 2)], 6: [Fraction(1), Fraction(2), Fraction(1, 2)]}
TAPS = 3


def product(roots):
    """Coefficients, lowest first, of the product of (z - root)."""
    result = [Fraction(1)]
    for root in roots:
        result = [a - root * b for a, b in zip([Fraction(0)] + result, result + [Fraction(0)])]
    return result


def value(coefficients, x):
    return sum(c * x**k for k, c in enumerate(coefficients))


def matrices(outputs, pairs):
    """A' (outputs x n), G (n x taps), B' (n x n)."""
    points = [Fraction(0)] + [p for q in pairs for p in (q, -q)]
    n = len(points) + 1
    assert n == outputs + TAPS - 1
    others = [product(p for p in points if p != point) + [Fraction(0)] for point in points]
    b = others + [product(points)]
    scale = [value(m, p) for m, p in zip(others, points)]
    g = [[p**k / s for k in range(TAPS)] for p, s in zip(points, scale)] + [[Fraction(k == TAPS - 1) for k in range(TAPS)]]
    a = [[p**k for p in points] + [Fraction(k == outputs - 1)] for k in range(outputs)]
    for k in range(outputs):  # what the whole is for: output k is the sum of tap * input k + tap
        for tap in range(TAPS):
            for i in range(n):
                assert sum(a[k][j] * g[j][tap] * b[j][i] for j in range(n)) == (i == k + tap)
    return a, g, b


def literal(number):
    exact = float(number)
    assert Fraction(exact) == number
    text = repr(exact)
    return text[:-2] + ".0f" if text.endswith(".0") else text + "f"


def signed_sum(terms):
    """terms: (sign, text); a positive one comes first where there is one."""
    terms = sorted(terms, key=lambda term: -term[0])
    text = ("-" if terms[0][0] < 0 else "") + terms[0][1]
    return text + "".join((" + " if sign > 0 else " - ") + name for sign, name in terms[1:])


def combination(terms):
    """Code for the sum of factor * name; names with the same factor are multiplied once, factor 1 comes first."""
    groups = {}
    for factor, name in terms:
        if factor != 0:
            groups.setdefault(abs(factor), []).append((1 if factor > 0 else -1, name))
    result = signed_sum(groups.pop(Fraction(1))) if Fraction(1) in groups else ""
    for factor, members in groups.items():
        sign = max(members)[0]
        inner = signed_sum([(sign * s, name) for s, name in members])
        inner = f"({inner})" if len(members) > 1 else inner
        term = f"{literal(factor)} * {inner}"
        result = (result + (" + " if sign > 0 else " - ") if result else "-" if sign < 0 else "") + term
    return result


def input_lines(pairs):
    squares = [q * q for q in pairs]
    whole = product(squares)
    last = 2 * len(pairs) + 1
    yield f"v[0] = {combination([(c, f'd[{2 * k}]') for k, c in enumerate(whole)])};"
    for i, q in enumerate(pairs):
        part = product(s for s in squares if s != q * q)
        even = combination([(c, f"d[{2 * k + 2}]") for k, c in enumerate(part)])
        odd = combination([(c, f"d[{2 * k + 1}]") for k, c in enumerate(part)])
        if q != 1:
            odd = f"{literal(q)} * ({odd})" if " " in odd else f"{literal(q)} * {odd}"
        yield f"const V even{i} = {even};"
        yield f"const V odd{i} = {odd};"
        yield f"v[{2 * i + 1}] = even{i} + odd{i};"
        yield f"v[{2 * i + 2}] = even{i} - odd{i};"
    yield f"v[{last}] = {combination([(c, f'd[{2 * k + 1}]') for k, c in enumerate(whole)])};"


def weight(point, left_out):
    """What G's 1 / M_i at a point is to be multiplied by when pairs are left out."""
    return value(product(q * q for q in left_out), point * point)


def output_lines(pairs, left_out):
    outputs = 2 * len(pairs)
    for i in range(len(pairs)):
        yield f"const V sum{i} = p[{2 * i + 1}] + p[{2 * i + 2}];"
        yield f"const V difference{i} = p[{2 * i + 1}] - p[{2 * i + 2}];"
    for k in range(outputs):
        half = "difference" if k % 2 else "sum"
        terms = [(q**k * weight(q, left_out), f"{half}{i}") for i, q in enumerate(pairs)]
        if k == 0:
            terms.insert(0, (weight(Fraction(0), left_out), "p[0]"))
        if k == outputs - 1:
            terms.insert(0, (Fraction(1), f"p[{outputs + 1}]"))
        yield f"y[{k}] = {combination(terms)};"


def fraction(number):
    return f"{number.numerator}.0" + (f" / {number.denominator}" if number.denominator != 1 else "")


def taps_lines(outputs, pairs):
    _, g, _ = matrices(outputs, pairs)
    yield "  // clang-format off"
    yield f"  static constexpr double taps[{len(g)}][{TAPS}] = {{"
    cells = [[fraction(x) for x in row] for row in g]
    widths = [max(len(row[k]) for row in cells) + 1 for k in range(TAPS - 1)]
    for row in cells:
        yield "      {" + " ".join((cell + ",").ljust(width) for cell, width in zip(row, widths)) + f" {row[-1]}}},"
    yield "  };"
    yield "  // clang-format on"


def size_lines(outputs, pairs, some):
    """The transforms that make `some` of the outputs."""
    kept, left_out = pairs[:some // 2], pairs[some // 2:]
    n = some + TAPS - 1
    yield f"// Points 0, {', '.join(f'{q}, -{q}' for q in kept)}, infinity."
    yield "template <>"
    yield f"struct Winograd<{outputs}, {some}> {{"
    if not left_out:
        yield from taps_lines(outputs, pairs)
    yield "  template <class V>"
    yield f"  static inline void input(const V (&d)[{n}], V (&v)[{n}]) {{"
    yield from ("    " + line for line in input_lines(kept))
    yield "  }"
    yield "  template <class V>"
    yield f"  static inline void output(const V (&p)[{n}], V (&y)[{some}]) {{"
    yield from ("    " + line for line in output_lines(kept, left_out))
    yield "  }"
    yield "};"
    yield ""


HEAD = """\
// Generated by gen/winograd.py, which derives it; do not edit.
//
// Winograd<m> computes m outputs of a correlation with 3 taps from m + 2 inputs, along one direction of an image.
// Winograd<m, k> computes only the first k of these outputs, from k + 2 inputs; k is even.
//
//     taps      the matrix that transforms the weights, in double precision
//     input     transforms the inputs d to v, their values at the points 0 .. k and m + 1 (infinity) of Winograd<m>
//     output    computes the outputs y from the products p
//
// The last product contributes to the last output only.
//
// The functions work on one float or on a vector of floats. They use no FMA, and a fixed order of operations, so they
// give the same bits on every level. Every level compiles this file with its own instructions, so everything here has
// internal linkage.
#pragma once

#include <cstddef>

namespace quern {
namespace {

template <size_t outputs, size_t some = outputs>
struct Winograd;
"""

TAIL = """\
}  // namespace
}  // namespace quern
"""


def header():
    lines = [line for outputs, pairs in SIZES.items() for some in range(outputs, 0, -2)
             for line in size_lines(outputs, pairs, some)]
    return HEAD + "\n" + "\n".join(lines) + "\n" + TAIL


def main():
    parser = argparse.ArgumentParser(description="Transforms of Winograd's convolution.")
    parser.add_argument("--check", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.check is None:
        print(header(), end="")
        return 0
    with open(arguments.check, encoding="utf-8") as file:
        if file.read() == header():
            return 0
    print(f"{arguments.check} is not what gen/winograd.py writes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
