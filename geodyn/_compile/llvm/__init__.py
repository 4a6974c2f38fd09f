"""A compiler of our own: from the traced program of one member to code with the members as SIMD lanes, by LLVM."""
