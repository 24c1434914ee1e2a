"""The benchmarks of `make bench`: rqueue compared with raw Redis commands and earlier trees."""
