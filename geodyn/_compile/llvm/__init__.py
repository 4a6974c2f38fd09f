"""Programs of one member as machine code for many: LLVM's instructions on vectors over the members of a batch."""
