"""LLVM's language, the operations on numbers in it, and its machine code as functions that XLA calls."""
