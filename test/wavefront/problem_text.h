// Problems and schedules as text: for tests, and for people who want to look.
//
//   devices 3
//   dim batch sum
//   dim seq max 8                           # the largest, rounded up to a multiple of 8
//   section teacher                         # forward only
//     max_samples 4
//     capacity 4 2048                       # one value a dim
//     area batch seq 4096                   # batch times seq, at most
//     stage slots 2 forward 20000+5*batch*seq
//     replica 0                             # a device a stage
//   section student trains split
//     active seq                            # only samples with seq > 0
//     max_samples 2
//     capacity 2 2048
//     stage slots 2 forward 1000*batch backward 1000*batch weight_gradient 900*batch update 5000
//     replica 1
//     replica 2
//   edge teacher 0 -> student 0 held depth 4 transfer 1000
//   hint headroom 2 sample_classes 1         # parts of a choice (choice.h), the others as usual; any number of lines
//   sample 1 512                            # one value a dim
//
// Costs are in picoseconds. A schedule:
//
//   microbatch teacher 0 samples 0 3        # replica 0
//   device 0 F0.0@0-20 B1.0@40-60           # kind, micro-batch, stage, start and end in nanoseconds
//   makespan 60
//   bound 55
#pragma once

#include "wavefront/schedule.h"

#include <string_view>

namespace maestro::wavefront {

/// Any bytes are safe; what is malformed is named with its line. Names hold no blanks and no `#`. Not yet check()ed.
Result<Problem> parseProblem(std::string_view text);
std::string print(const Problem &problem);

/// Of a problem that check() accepts. Combined dims are computed; not yet verify()ed.
Result<Schedule> parseSchedule(const Problem &problem, std::string_view text);
std::string print(const Problem &problem, const Schedule &schedule);

/// A line per device, time to the right, in `columns` columns: forward tasks as their section's letter in upper case,
/// backward tasks in lower case, weight gradients as `w`, idle as `.`; then each section's letter and busy time.
std::string drawGantt(const Problem &problem, const Schedule &schedule, size_t columns = 100);

} // namespace maestro::wavefront
