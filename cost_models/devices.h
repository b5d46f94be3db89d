// The devices that cluster files may name without a profile; devices.cpp has each number's source beside it.
#pragma once

#include "cost_models/machine.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::cost_models {

/// Names of all built-in accelerators, for messages; "cpu" is none of them, since its numbers depend on threads.
std::vector<std::string> builtInDevices();

/// A device as its data sheet describes it, its memory less what the CUDA context, libraries and communicators take
/// (DeviceModel.kept).
std::optional<DeviceModel> builtInDevice(std::string_view name);

/// The built-in device that the vendor calls so: "h100-sxm" for "NVIDIA H100 80GB HBM3". Nothing for others.
std::optional<std::string> builtInOf(std::string_view product);

/// The links among devices of one node that come with the device, for clusters that do not say; `spans` is 1. Without a
/// value where a node's devices have none of their own: then they meet over PCI Express.
LinkLevel builtInNodeLink(std::string_view name);

} // namespace maestro::cost_models
