"""The elastic rod's equations of motion in the polar chart of H³ by hand, for peers that cannot differentiate."""


def rod_rate(xp, t, y):
    """(q', v') of y = (q, v), twelve numbers, in the functions sin, cos, sinh, cosh, sqrt, asinh of the module xp."""
    (a1, b1, g1, a2, b2, g2), v = y[:6], y[6:]
    sinh1, cosh1, sinh2, cosh2 = xp.sinh(a1), xp.cosh(a1), xp.sinh(a2), xp.cosh(a2)
    sin1, cos1, sin2, cos2 = xp.sin(b1), xp.cos(b1), xp.sin(b2), xp.cos(b2)
    across = xp.sin((g1 - g2) / 2) ** 2
    angle = xp.sin((b1 - b2) / 2) ** 2 + sin1 * sin2 * across  # sin² of half the angle at the origin
    u = xp.sinh((a1 - a2) / 2) ** 2 + sinh1 * sinh2 * angle  # sinh² of half the distance
    pull = -(2 * xp.asinh(xp.sqrt(u)) - 2) / xp.sqrt(u * (1 + u))  # −dV/du for stiffness 1, length 2
    turn, lean, reach = xp.sin(g1 - g2) / 2, xp.sin(b1 - b2) / 2, xp.sinh(a1 - a2) / 2
    slopes1 = (reach + cosh1 * sinh2 * angle, lean + cos1 * sin2 * across, sin1 * sin2 * turn)
    slopes2 = (-reach + sinh1 * cosh2 * angle, -lean + sin1 * cos2 * across, -sin1 * sin2 * turn)
    both = sinh1 * sinh2

    def acceleration(sinh, cosh, sin, cos, v, slopes):
        a, b, g = v
        return (
            sinh * cosh * (b * b + (sin * g) ** 2) + pull * slopes[0],
            -2 * cosh / sinh * a * b + sin * cos * g * g + pull * both * slopes[1] / sinh**2,
            -2 * (cosh / sinh * a + cos / sin * b) * g + pull * both * slopes[2] / (sinh * sin) ** 2,
        )

    first = acceleration(sinh1, cosh1, sin1, cos1, v[:3], slopes1)
    return (*v, *first, *acceleration(sinh2, cosh2, sin2, cos2, v[3:], slopes2))
