// RUN: maestro-opt %s --split-input-file --verify-diagnostics
// What the section dialect refuses, and how it says so.

// expected-error@+1 {{is stage 2 of 2}}
section.section "a.stage2" {components = ["a"], of = "a", stage = 2 : i64, stages = 2 : i64}

// -----

// expected-error@+1 {{is stage -1 of 1}}
section.section "a" {components = ["a"], stage = -1 : i64}
