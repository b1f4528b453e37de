"""The C core of open-torchneuron: the folder that holds libtn.so and its headers."""
