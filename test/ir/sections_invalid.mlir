// RUN: maestro-opt %s --split-input-file --verify-diagnostics
// What the section dialect refuses, and how it says so.

// expected-error@+1 {{data_parallel 0, stages 1, micro_batch 4 and tensor 1 must be at least 1}}
section.section "a" {components = ["a"], layout = #section.layout<data_parallel = 0, stages = 1, micro_batch = 4, recompute = false>}

// -----

// expected-error@+1 {{data_parallel 1, stages 1, micro_batch -4 and tensor 1 must be at least 1}}
section.section "a" {components = ["a"], layout = #section.layout<data_parallel = 1, stages = 1, micro_batch = -4, recompute = false>}

// -----

// expected-error@+1 {{is stage 2 of 2}}
section.section "a.stage2" {components = ["a"], of = "a", stage = 2 : i64, layout = #section.layout<data_parallel = 1, stages = 2, micro_batch = 4, recompute = false>}

// -----

// expected-error@+1 {{is stage -1 of 1}}
section.section "a" {components = ["a"], stage = -1 : i64}

// -----

// expected-error@+1 {{has devices and no layout}}
section.section "a" {components = ["a"], devices = array<i64: 0>}

// -----

// expected-error@+1 {{has 3 devices for 2 replicas}}
section.section "a" {components = ["a"], devices = array<i64: 0, 1, 2>, layout = #section.layout<data_parallel = 2, stages = 1, micro_batch = 4, recompute = false>}

// -----

// expected-error@+1 {{device -1 is negative}}
section.section "a" {components = ["a"], devices = array<i64: -1>, layout = #section.layout<data_parallel = 1, stages = 1, micro_batch = 4, recompute = false>}
