// Checkpoints and gradients of a run, from device memory to files and back.
#pragma once

#include "base/status.h"
#include "executor/checkpoint/directory.h"
#include "executor/core/executable.h"

#include <string>

namespace maestro::executor {

/// Writes checkpoint-<state.step>/ under `outFolder`: parameters and persistent buffers by component,
/// the optimizer's state, state.json. Whole or not there.
Status saveCheckpoint(const plan::Plan &plan, ExecutableInstance &instance, Device &device,
                      const std::string &outFolder, checkpoint::TrainingState state);

/// Loads values and optimizer state of a checkpoint into the instance. A tensor that is missing or of
/// another shape is InvalidInput and named.
Status loadCheckpoint(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found,
                      ExecutableInstance &instance, Device &device);

/// gradients.safetensors: every trainable parameter's gradient as <component>.<parameter>.
Status saveGradients(const plan::Plan &plan, ExecutableInstance &instance, Device &device,
                     const std::string &path);

} // namespace maestro::executor
