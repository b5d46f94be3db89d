#include "planner/emit/initial_values.h"

namespace maestro::planner {

namespace fb = plan::fb;

void chooseInitialValues(const GraphParameter &source, fb::ParameterT &parameter) {
  if (source.info.zeros) {
    parameter.initializer = fb::Initializer::Zeros;
    return;
  }
  if (source.info.kind != ParameterKind::Parameter || !isFloat(source.dtype))
    return;
  bool isVector = source.shape.size() <= 1;
  bool isBias = source.info.name.ends_with("bias");
  parameter.initializer = isBias ? fb::Initializer::Zeros : isVector ? fb::Initializer::Ones : fb::Initializer::Normal;
  parameter.initializer_scale = 0.02;
}

} // namespace maestro::planner
