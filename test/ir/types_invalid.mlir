// RUN: maestro-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{element type 'i7' is none of f32, f64, bf16, f16, i64, i32, i16, i8, ui8, i1}}
func.func private @f(!nn.tensor<[n], i7>)

// -----
// expected-error@+1 {{rank 9 of [1, 1, 1, 1, 1, 1, 1, 1, 1] is above the limit of 8}}
func.func private @f(!nn.tensor<[1, 1, 1, 1, 1, 1, 1, 1, 1], f32>)

// -----
// expected-error@+1 {{dim 1 of [n, -1] is negative}}
func.func private @f(!nn.tensor<[n, 2 - 3], f32>)

// -----
// expected-error@+1 {{dim 0 exceeds 64 bits}}
func.func private @f(!nn.tensor<[9223372036854775807 + 1], f32>)

// -----
// expected-error@+1 {{expected a symbolic integer such as 4*images + 1}}
func.func private @f(!nn.tensor<[n +], f32>)

// -----
// expected-error@+1 {{expected a symbolic integer such as 4*images + 1}}
func.func private @f(!nn.tensor<[min(a)], f32>)

// -----
// expected-error@+1 {{expected a symbolic integer such as 4*images + 1}}
func.func private @f(!nn.tensor<[?], f32>)
