// RUN: maestro-opt %s --split-input-file --maestro-partition-sections | FileCheck %s
// RUN: maestro-opt %s --split-input-file --maestro-partition-sections=move-tails=false | FileCheck %s --check-prefix=LOGITS
// RUN: maestro-opt %s --split-input-file --maestro-partition-sections --maestro-verify-phase=phase=partition

// The example of passes/partition_sections.cpp: a frozen teacher of two products, a student, and their divergence. The
// teacher's hidden state has a fifth of its logits' bytes, so it crosses, and the frozen head runs on the student's side.
// Nothing of the teacher trains, so no gradient goes back.
// CHECK-LABEL: section.section "teacher" {active_dims = ["batch"], components = ["teacher"]}
// CHECK: section.section "student" {active_dims = ["batch"], components = ["student"], trains}
// CHECK: section.edge "teacher_to_student" from "teacher" to "student" : !nn.tensor<[batch, 8], f32> {nn.reason = "nn.matmul's result, as nn.matmul reads it; of what means the same the fewest bytes: behind nn.matmul it would be 5.0 x as many"}
// CHECK: module @teacher {
// CHECK: func.func @graph({{.*}}nn.field = "x"{{.*}}nn.parameter = "teacher/w"{{.*}}) -> (!nn.tensor<[batch, 8], f32> {nn.edge = "teacher_to_student"})
// CHECK-NOT: teacher/head
// CHECK: module @student {
// CHECK: func.func @graph(
// CHECK-SAME: {nn.parameter = "student/w", nn.trainable}
// CHECK-SAME: {nn.edge = "teacher_to_student"}
// CHECK-SAME: {nn.parameter = "teacher/head"}
// CHECK-SAME: -> (!nn.tensor<[], f32> {nn.loss = "kl", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "kl", nn.role = "count"})
// LOGITS: section.edge "teacher_to_student" from "teacher" to "student" : !nn.tensor<[batch, 40], f32>
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %t: !nn.tensor<[8, 8], f32> {nn.parameter = "teacher/w"},
                   %head: !nn.tensor<[8, 40], f32> {nn.parameter = "teacher/head"},
                   %s: !nn.tensor<[8, 40], f32> {nn.parameter = "student/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "kl", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "kl", nn.role = "count"}) {
    %h = nn.matmul %x, %t : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %a = nn.matmul %h, %head : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %b = nn.matmul %x, %s : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %d = nn.sub %b, %a : (!nn.tensor<[batch, 40], f32>, !nn.tensor<[batch, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %q = nn.mul %d, %d : (!nn.tensor<[batch, 40], f32>, !nn.tensor<[batch, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %sum = nn.reduce_sum %q {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 40], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// The student reads the teacher's hidden state itself, too: it crosses anyway, once, and nothing is gained over logits that
// would have crossed instead.
// CHECK-LABEL: section.section "teacher"
// CHECK-NOT: as many
// CHECK: section.edge "teacher_to_student" from "teacher" to "student" : !nn.tensor<[batch, 8], f32> {nn.reason = "nn.matmul's result, as nn.sub and nn.matmul read it; nn.matmul's result need not cross, as it follows from this"}
// CHECK-NOT: section.edge
// CHECK: module @teacher {
// Without moving, both cross, and nothing is said to be saved.
// LOGITS: module @student {
// LOGITS-NOT: as many
// LOGITS: section.edge "teacher_to_student_2"
// LOGITS-NOT: as many
// LOGITS: module @teacher {
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %t: !nn.tensor<[8, 8], f32> {nn.parameter = "teacher/w"},
                   %head: !nn.tensor<[8, 40], f32> {nn.parameter = "teacher/head"},
                   %u: !nn.tensor<[8, 8], f32> {nn.parameter = "student/u", nn.trainable},
                   %s: !nn.tensor<[8, 40], f32> {nn.parameter = "student/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "kl", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "kl", nn.role = "count"}) {
    %h = nn.matmul %x, %t : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %a = nn.matmul %h, %head : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %g = nn.matmul %x, %u : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %f = nn.sub %g, %h : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %k = nn.mul %f, %f : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %b = nn.matmul %k, %s : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %d = nn.sub %b, %a : (!nn.tensor<[batch, 40], f32>, !nn.tensor<[batch, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %q = nn.mul %d, %d : (!nn.tensor<[batch, 40], f32>, !nn.tensor<[batch, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %sum = nn.reduce_sum %q {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 40], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// Rows of their own make a section of their own: an encoder of images before a language model. Both train, so the edge
// carries gradients.
// CHECK-LABEL: section.section "vision" {active_dims = ["images"], components = ["vision"], trains}
// CHECK: section.section "language" {active_dims = ["batch"]
// CHECK: section.edge "vision_to_language" from "vision" to "language" gradient : !nn.tensor<[32*images], f32>
// CHECK: module @vision {
// CHECK-NOT: masked_scatter
// CHECK: module @language {
// CHECK: masked_scatter
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}, seq = {combine = "max", max = 32 : i64},
                              images = {combine = "sum", max = 4 : i64}}} {
  func.func @graph(%pixels: !nn.tensor<[images, 4, 64], f32> {nn.field = "pixels"},
                   %ids: !nn.tensor<[batch, seq], i64> {nn.field = "ids"},
                   %v: !nn.tensor<[64, 8], f32> {nn.parameter = "vision/w", nn.trainable},
                   %e: !nn.tensor<[50, 8], f32> {nn.parameter = "language/e", nn.trainable},
                   %w: !nn.tensor<[8, 50], f32> {nn.parameter = "language/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %f = nn.matmul %pixels, %v : (!nn.tensor<[images, 4, 64], f32>, !nn.tensor<[64, 8], f32>) -> !nn.tensor<[images, 4, 8], f32>
    %flat = nn.reshape %f : (!nn.tensor<[images, 4, 8], f32>) -> !nn.tensor<[4*images, 8], f32>
    %source = nn.reshape %flat : (!nn.tensor<[4*images, 8], f32>) -> !nn.tensor<[32*images], f32>
    %one = nn.constant dense<1> : tensor<i64> : !nn.tensor<[], i64>
    %marked = nn.equal %ids, %one : (!nn.tensor<[batch, seq], i64>, !nn.tensor<[], i64>) -> !nn.tensor<[batch, seq], i1>
    %column = nn.reshape %marked : (!nn.tensor<[batch, seq], i1>) -> !nn.tensor<[batch, seq, 1], i1>
    %mask = nn.broadcast_to %column : (!nn.tensor<[batch, seq, 1], i1>) -> !nn.tensor<[batch, seq, 8], i1>
    %h = nn.gather %e, %ids {axis = 0 : i64} : (!nn.tensor<[50, 8], f32>, !nn.tensor<[batch, seq], i64>) -> !nn.tensor<[batch, seq, 8], f32>
    %m = nn.masked_scatter %h, %mask, %source : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], i1>, !nn.tensor<[32*images], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %y = nn.matmul %m, %w : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 50], f32>) -> !nn.tensor<[batch, seq, 50], f32>
    %sum = nn.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, seq, 50], f32>) -> !nn.tensor<[], f32>
    %ones = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// A class of little work joins the one that reads it: a frozen scale before a trained product is no section.
// CHECK-LABEL: section.section "m" {active_dims = ["batch"], components = ["m"]
// CHECK-NOT: section.section
// CHECK-NOT: section.edge
// CHECK: module @m {
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %t: !nn.tensor<[8], f32> {nn.parameter = "m/scale"},
                   %s: !nn.tensor<[8, 400], f32> {nn.parameter = "m/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %h = nn.mul %x, %t : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8], f32>) -> !nn.tensor<[batch, 8], f32>
    %b = nn.matmul %h, %s : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 400], f32>) -> !nn.tensor<[batch, 400], f32>
    %sum = nn.reduce_sum %b {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 400], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// Values and indices of the teacher's largest logits cross together where that is fewer bytes than its hidden states (24 of 32 here).
// CHECK-LABEL: section.section "teacher"
// CHECK: section.edge "teacher_to_student" from "teacher" to "student" : !nn.tensor<[batch, 2],
// CHECK: section.edge "teacher_to_student_2" from "teacher" to "student" : !nn.tensor<[batch, 2],
// CHECK-NOT: section.edge
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %t: !nn.tensor<[8, 8], f32> {nn.parameter = "teacher/w"},
                   %head: !nn.tensor<[8, 40], f32> {nn.parameter = "teacher/head"},
                   %s: !nn.tensor<[8, 40], f32> {nn.parameter = "student/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "kl", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "kl", nn.role = "count"}) {
    %h = nn.matmul %x, %t : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %a = nn.matmul %h, %head : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %v, %i = nn.top_k %a {axis = 1 : i64} : (!nn.tensor<[batch, 40], f32>) -> (!nn.tensor<[batch, 2], f32>, !nn.tensor<[batch, 2], i64>)
    %b = nn.matmul %x, %s : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %p = nn.gather_elements %b, %i {axis = 1 : i64} : (!nn.tensor<[batch, 40], f32>, !nn.tensor<[batch, 2], i64>) -> !nn.tensor<[batch, 2], f32>
    %d = nn.sub %p, %v : (!nn.tensor<[batch, 2], f32>, !nn.tensor<[batch, 2], f32>) -> !nn.tensor<[batch, 2], f32>
    %q = nn.mul %d, %d : (!nn.tensor<[batch, 2], f32>, !nn.tensor<[batch, 2], f32>) -> !nn.tensor<[batch, 2], f32>
    %sum = nn.reduce_sum %q {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 2], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// Three of each are 36 bytes: the hidden states cross, and the head and its largest logits are the student's to compute.
// CHECK-LABEL: section.section "teacher"
// CHECK: section.edge "teacher_to_student" from "teacher" to "student" : !nn.tensor<[batch, 8], f32>
// CHECK-NOT: section.edge
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %t: !nn.tensor<[8, 8], f32> {nn.parameter = "teacher/w"},
                   %head: !nn.tensor<[8, 40], f32> {nn.parameter = "teacher/head"},
                   %s: !nn.tensor<[8, 40], f32> {nn.parameter = "student/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "kl", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "kl", nn.role = "count"}) {
    %h = nn.matmul %x, %t : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %a = nn.matmul %h, %head : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %v, %i = nn.top_k %a {axis = 1 : i64} : (!nn.tensor<[batch, 40], f32>) -> (!nn.tensor<[batch, 3], f32>, !nn.tensor<[batch, 3], i64>)
    %b = nn.matmul %x, %s : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 40], f32>) -> !nn.tensor<[batch, 40], f32>
    %p = nn.gather_elements %b, %i {axis = 1 : i64} : (!nn.tensor<[batch, 40], f32>, !nn.tensor<[batch, 3], i64>) -> !nn.tensor<[batch, 3], f32>
    %d = nn.sub %p, %v : (!nn.tensor<[batch, 3], f32>, !nn.tensor<[batch, 3], f32>) -> !nn.tensor<[batch, 3], f32>
    %q = nn.mul %d, %d : (!nn.tensor<[batch, 3], f32>, !nn.tensor<[batch, 3], f32>) -> !nn.tensor<[batch, 3], f32>
    %sum = nn.reduce_sum %q {axes = array<i64: 0, 1>} : (!nn.tensor<[batch, 3], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// Scores that a mask was put on do not cross to another section, whose padding would be zeros: they cross before it, and the
// mask is put on behind.
// CHECK-LABEL: section.section "net.batch" {active_dims = ["batch"], components = ["net"]}
// CHECK: section.edge "net.batch_to_net" from "net.batch" to "net" : !nn.tensor<[batch, seq, seq], f32>
// CHECK: module @net.batch {
// CHECK-NOT: nn.where
// CHECK: module @net {
// CHECK: nn.where
module attributes {nn.dims = {batch = {combine = "sum", max = 1 : i64}, seq = {combine = "max", max = 64 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}, %mask: !nn.tensor<[batch, 1, seq], i1> {nn.field = "mask"},
                   %wq: !nn.tensor<[8, 8], f32> {nn.parameter = "net/q"}, %wk: !nn.tensor<[8, 8], f32> {nn.parameter = "net/k"},
                   %t: !nn.tensor<[1], f32> {nn.parameter = "net/t", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %q = nn.matmul %x, %wq : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %k = nn.matmul %x, %wk : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %z = nn.matmul %q, %k {transpose_b = true} : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %least = nn.constant dense<-1.0e9> : tensor<f32> : !nn.tensor<[], f32>
    %m = nn.where %mask, %least, %z : (!nn.tensor<[batch, 1, seq], i1>, !nn.tensor<[], f32>, !nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %s = nn.mul %m, %t : (!nn.tensor<[batch, seq, seq], f32>, !nn.tensor<[1], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %p = nn.softmax %s {axis = 2 : i64} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %a = nn.matmul %p, %x : (!nn.tensor<[batch, seq, seq], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %sum = nn.reduce_sum %a {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// A number that is added is no mask.
// CHECK-LABEL: section.section "net" {active_dims = ["batch"], components = ["net"]}
// CHECK: section.edge "net_to_net.t" from "net" to "net.t" : !nn.tensor<[batch, seq, seq], f32>
// CHECK: module @net {
// CHECK: nn.add
module attributes {nn.dims = {batch = {combine = "sum", max = 1 : i64}, seq = {combine = "max", max = 64 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"},
                   %wq: !nn.tensor<[8, 8], f32> {nn.parameter = "net/q"}, %wk: !nn.tensor<[8, 8], f32> {nn.parameter = "net/k"},
                   %t: !nn.tensor<[1], f32> {nn.parameter = "net/t", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %q = nn.matmul %x, %wq : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %k = nn.matmul %x, %wk : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, seq, 8], f32>
    %z = nn.matmul %q, %k {transpose_b = true} : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[batch, seq, 8], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %c = nn.constant dense<1.0e-9> : tensor<f32> : !nn.tensor<[], f32>
    %m = nn.add %z, %c : (!nn.tensor<[batch, seq, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %s = nn.mul %m, %t : (!nn.tensor<[batch, seq, seq], f32>, !nn.tensor<[1], f32>) -> !nn.tensor<[batch, seq, seq], f32>
    %sum = nn.reduce_sum %s {axes = array<i64: 0, 1, 2>} : (!nn.tensor<[batch, seq, seq], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}

// -----

// Two values of a frozen encoder are read, and both follow from a third, by data: that one crosses alone, and the rest is
// computed where it is read. What is padded is not: what crosses is padded with zeros, of which exp makes ones.
// CHECK-LABEL: section.section "encoder"
// CHECK: section.edge "encoder_to_denoiser" from "encoder" to "denoiser" : !nn.tensor<[batch, 8], f32> {nn.reason = "nn.matmul's result, as nn.mul and nn.sub read it; nn.sub's result, nn.add's result need not cross, as it follows from this"}
// CHECK: section.edge "encoder_to_denoiser_2" from "encoder" to "denoiser" : !nn.tensor<[batch, seq], f32> {nn.reason = "nn.exp's result, as nn.mul reads it"}
// CHECK: section.edge "encoder_to_denoiser_3" from "encoder" to "denoiser" : !nn.tensor<[batch, seq], f32> {nn.reason = "nn.reshape's result, as nn.mul reads it"}
// CHECK-NOT: section.edge
// CHECK: module @encoder {
// CHECK-NOT: nn.sub
// CHECK: nn.exp
// CHECK: module @denoiser {
// CHECK: func.func @graph({{.*}}nn.field = "t"{{.*}}nn.field = "noise"
// CHECK: nn.sub
// CHECK-NOT: nn.exp
module attributes {nn.dims = {batch = {combine = "sum", max = 16 : i64}, seq = {combine = "max", max = 32 : i64}}} {
  func.func @graph(%x: !nn.tensor<[batch, 8], f32> {nn.field = "x"},
                   %long: !nn.tensor<[batch, seq, 8], f32> {nn.field = "long"},
                   %noise: !nn.tensor<[batch, 8], f32> {nn.field = "noise"},
                   %t: !nn.tensor<[batch, 1], f32> {nn.field = "t"},
                   %e: !nn.tensor<[8, 8], f32> {nn.parameter = "encoder/w"},
                   %v: !nn.tensor<[8, 1], f32> {nn.parameter = "encoder/v"},
                   %g: !nn.tensor<[], f32> {nn.parameter = "denoiser/g", nn.trainable},
                   %w: !nn.tensor<[8, 8], f32> {nn.parameter = "denoiser/w", nn.trainable})
      -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"}, !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
    %h = nn.matmul %x, %e : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %goal = nn.sub %noise, %h : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %clean = nn.mul %h, %t : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 1], f32>) -> !nn.tensor<[batch, 8], f32>
    %noisy = nn.add %clean, %noise : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %y = nn.matmul %noisy, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %d = nn.sub %y, %goal : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %q = nn.mul %d, %d : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
    %own = nn.reduce_sum %q {axes = array<i64: 1>} : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch], f32>
    %column = nn.matmul %long, %v : (!nn.tensor<[batch, seq, 8], f32>, !nn.tensor<[8, 1], f32>) -> !nn.tensor<[batch, seq, 1], f32>
    %s = nn.reshape %column : (!nn.tensor<[batch, seq, 1], f32>) -> !nn.tensor<[batch, seq], f32>
    %p = nn.exp %s : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq], f32>
    %gated = nn.mul %p, %g : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[], f32>) -> !nn.tensor<[batch, seq], f32>
    %both = nn.mul %s, %gated : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch, seq], f32>
    %all = nn.reduce_sum %both {axes = array<i64: 1>} : (!nn.tensor<[batch, seq], f32>) -> !nn.tensor<[batch], f32>
    %each = nn.mul %own, %all : (!nn.tensor<[batch], f32>, !nn.tensor<[batch], f32>) -> !nn.tensor<[batch], f32>
    %sum = nn.reduce_sum %each {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    %one = nn.fill {value = 1.0 : f64} : () -> !nn.tensor<[batch], f32>
    %count = nn.reduce_sum %one {axes = array<i64: 0>} : (!nn.tensor<[batch], f32>) -> !nn.tensor<[], f32>
    return %sum, %count : !nn.tensor<[], f32>, !nn.tensor<[], f32>
  }
}
