// Checkpoints and gradients of a run, from device memory to files and back. While no step is under way.
#pragma once

#include "base/status.h"
#include "executor/checkpoint/directory.h"
#include "executor/core/job.h"

#include <string>

namespace maestro::executor {

/// Writes checkpoint-<state.step>/ under `outFolder`: parameters and persistent buffers by component,
/// the optimizer's state, state.json. Whole or not there.
Status saveCheckpoint(const plan::Plan &plan, Job &job, const std::string &outFolder, checkpoint::TrainingState state);

/// Loads values and optimizer state of a checkpoint into all stations. A tensor that is missing or of
/// another shape is InvalidInput and named.
Status loadCheckpoint(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found, Job &job);

/// gradients.safetensors: every trainable parameter's gradient as <component>.<parameter>.
Status saveGradients(const plan::Plan &plan, Job &job, const std::string &path);

} // namespace maestro::executor
