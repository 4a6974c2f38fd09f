"""Bodies as a user writes them in a file of his own, for the studio."""

ON_TORUS = """
import geodyn as gd
import jax.numpy as jnp

def on_torus(ring=2.0, tube=1.0):
    def place(x):
        far = ring + tube * jnp.cos(x[1])
        return jnp.stack([far * jnp.cos(x[0]), far * jnp.sin(x[0]), tube * jnp.sin(x[1])])

    found = gd.symmetries(gd.spaces.Embedded(place, 3, 2), [0.0, 0.8])
    return gd.swimmers.TwoLegged(found.space)
"""
