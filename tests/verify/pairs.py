"""Crafted pairs of gold and answer with the verdict that a careful reader gives: (gold, answer, right?)."""

RIGHT = r"""
1000 | 1 000
1000 | 1,000
1000 | 1{,}000
1000000 | 1 000 000
10^6 | 1\,000\,000
1234.5 | 1 234.5
12 | 12.0
12 | +12
12 | 012
-7 | −7
-7 | $-7$
0.5 | 1/2
1/2 | 0.5
1/2 | \frac{1}{2}
\frac{1}{2} | \dfrac12
\frac{1}{2} | .5
\frac{1}{2} | 2/4
\frac{3}{4} | 75%
75% | 75
75% | 0.75
50\% | 50%
0.\overline{3} | 1/3
\frac{1}{3} | 0.\overline{3}
\frac{1}{6} | 0.1\overline{6}
\frac{5}{33} | 0.\overline{15}
\frac{4}{3} | 1.\overline{3}
1\frac{1}{2} | 3/2
137\frac12 | 137 1/2
\sqrt{2} | √2
\sqrt{2} | sqrt(2)
\sqrt{8} | 2\sqrt{2}
2\sqrt{2} | √8
\frac{\sqrt{2}}{2} | \frac{1}{\sqrt{2}}
\sqrt[3]{8} | 2
2\pi | 2π
2\pi | 2 pi
2\pi | 2*pi
12\pi | The area is 12π inches.
\frac{\pi}{4} | π/4
x^2+2x+1 | (x+1)^2
(x+1)^2 | x**2 + 2*x + 1
x^2-1 | (x-1)(x+1)
2x+3 | 3+2x
x=5 | 5
5 | x = 5
5 | x=5
y=2x+1 | y = 1+2x
(1,2) | (1, 2)
(1,2) | $(1,2)$
(3, \frac{\pi}{2}) | (3, π/2)
\{1,2,3\} | {3, 2, 1}
1,2,3 | 3, 1, 2
3 or 5 | 5, 3
3,5 | x = 3 or x = 5
(-\infty,3] | x \le 3
(-\infty,3] | x≤3
x\le 3 | (-∞,3]
(3,\infty) | x > 3
[2,\infty) | x >= 2
[2,5) | [2,5)
(-\infty,0)\cup(1,\infty) | (-∞,0) ∪ (1,∞)
\varnothing | \emptyset
\emptyset | \varnothing
\emptyset | ∅
e^{i\pi} | -1
-1 | e^{iπ}
3+4i | 4i+3
i | i
\infty | ∞
-\infty | -∞
\text{east} | East
\text{(C)} | (C)
ellipse | Ellipse
ellipse | The answer is ellipse.
yes | Yes
no | No.
no | NO
odd | odd
5 \text{ cm} | 5 cm
5 cm | 5 centimeters
5 cm | 5
5 | 5 cm
5 m | 5 meters
10 \text{ feet} | 10 ft
3 \text{ hours} | 3 hours
12 \text{ square inches} | 12 square inches
5 \text{ cents} | 5 cents
\$5 | $5
\$5 | 5 dollars
18 | \boxed{18}
18 | **18**
18 | `18`
18 | The answer is 18.
18 | 18 apples
17 | 17 (seventeen)
18 | <answer>18</answer>
120 | 5!
8 | 2^3
1500 | 1.5e3
1.5\times 10^3 | 1500
0.001 | 10^{-3}
90^\circ | 90°
90^\circ | 90
\sin(x) | sin(x)
\frac{1}{\cos x} | \sec(x)
\ln 2 | ln(2)
\log_{10} 100 | 2
\binom{5}{2} | 10
\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix} 1 \\ 2 \end{pmatrix}
|x| | |x|
3x | 3*x
\frac{a}{b} | a/b
3 | three
12 | The answer is twelve.
three | 3
-3 | minus 3
-3 | negative 3
8 | 5 plus 3
25 | 5 squared
\sqrt{5} | square root of 5
\sqrt{5} | sqrt 5
\log 5 | log 5
12 | 3 x 4
6.02e23 | 6.02 x 10^23
5000000 | 5 million
5 million | 5,000,000
36 | 3 dozen
0.05 | 5 percent
5 per cent | 5\%
1/3 | 0.333...
\frac{41}{333} | 0.123123…
x^4 | x⁴
x^{-12} | x⁻¹²
x_1 | x₁
3/4 | ¾
3-2i | 3 - 2\mathrm{i}
(1,2) | \langle 1,2\rangle
\mathbb{R} | all real numbers
(-\infty,2)\cup(5,\infty) | x<2 or x>5
x<2 \text{ or } x>5 | (-\infty,2)\cup(5,\infty)
x<2 or x>5 | x<2, x>5
(2,5] | x > 2 and x ≤ 5
2.50 dollars | \$2.50
\$1,000 | 1,000 dollars
5 euros | €5
£5 | 5 pounds
\$15 per hour | 15 dollars per hour
3 kilograms | 3 kg
20 students | 20
6 in | 6 inches
15 cm^2 | 15 square centimeters
15 cubic meters | 15 m^3
15 miles per hour | 15 mph
15 km per hour | 15 km/h
9.8 m/s^2 | 9.8 meters per second squared
5 mL | 5 milliliters
10 newtons | 10 N
25 degrees Celsius | 25^\circ\text{C}
25^\circ | 25°C
9:00 \text{ a.m.} | 9:00 AM
7:30 | 7:30 p.m.
2A_{16} | 2A_{16}
2516_8 | 2516
9s^2 | (3s)^2
4m^2 | (2m)^2
\frac{1}{2}m^2 | m^2/2
2+3s^2 | 3s^2+2
x^2-4m^2 | (x-2m)(x+2m)
(x+1)m^2 | m^2(x+1)
\pi h^2 | h^2\pi
e | 2.718281828...
2.718281828... | e
5/33 | 0.151515...
1/7 | 0.142857142857...
16/110 | 0.1454545...
5000000 | 5 millions
5 million | 5 millions
2000 | 2 thousands
15 | 15 m^2
9m^2 | 9 m^2
9 m^2 | 9m^2
"""

WRONG = r"""
no | on
on | no
yes | no
no | yes
odd | even
5 cm | 5 m
5 m | 5 cm
5 m | 5 km
3 hours | 3 minutes
3 \text{ minutes} | 3 seconds
10 \text{ ft} | 10 inches
5 \text{ cents} | 5 dollars
2 kg | 2 g
5 | not 5
5 | It is not 5.
5 | not equal to 5
5 | isn't 5
7 | never 7
1000 | 1 001
1000 | 10 000
1000 | 100
0.\overline{3} | 0.3
\frac{1}{3} | 0.\overline{34}
(-\infty,3] | x<3
(-\infty,3] | x \ge 3
x\le 3 | (-∞,3)
(3,\infty) | x \ge 3
(3,\infty) | x < 3
\varnothing | 0
\emptyset | \{0\}
e^{i\pi} | 1
-1 | e^{2iπ}
3+4i | 3-4i
12 | 13
12 | 1.2
12 | 12%
12 | -12
1/2 | 1/3
0.5 | 0.05
75% | 7.5
700% | 700.5
\sqrt{2} | 2
\sqrt{2} | \sqrt{3}
2\pi | 2
2\pi | 4\pi
x^2+1 | x^2-1
(x+1)^2 | x^2+1
x^2 | y^2
(1,2) | (2,1)
(1,2) | [1,2]
[1,2] | (1,2]
1,2,3 | 1,2
1,2 | 1,2,3
3 or 5 | 3
x=5 | x=6
\text{east} | west
\text{east} | seat
\text{(C)} | (D)
ellipse | circle
90^\circ | 80
120 | 5
8 | 2*3
\infty | -\infty
\infty | 10^{10}
\binom{5}{2} | 20
\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix}2\\1\end{pmatrix}
18 | 81
18 | I do not know.
18 |  ?
18 | 17 or 18
\frac{a}{b} | b/a
3 | negative 3
3 | minus 3
-3 | three
3 | 5 plus 3
5 | 5 squared
5 | square root of 5
5 | sqrt 5
5 | log 5
5 | 5 million
5 million | 5 billion
3 | 3 dozen
5 | 5 percent
5 | less than 5
5 | more than 5 cm
5 | It is not 5 cm
5 | five hundred
2/3 | 0.66
(2,5) | x < 2 or x > 5
(-\infty,2)\cup(5,\infty) | x<2 and x>5
15 mph | 15 km/h
15 m | 15 m^2
15 m | 15 square meters
15 square meters | 15 meters
2 m/s | 2 m/s^2
25°C | 25°F
90^\circ | 90 radians
$5 | €5
\$5 | 5 cents
\$15 per hour | \$15 per day
9:00 | 8:00
9:00 AM | 9:00 PM
101_2 | 101_3
20 students | 21
6s^2 | 6
4h^3 | 4
(x+1)s^2 | (x+1)
5 | 5 millions
"""


def pairs() -> list[tuple[str, str, bool]]:
    """All of them."""
    found = []
    for table, right in ((RIGHT, True), (WRONG, False)):
        for line in table.strip("\n").splitlines():
            gold, _, answer = line.partition(" | ")
            found.append((gold, answer, right))
    return found
