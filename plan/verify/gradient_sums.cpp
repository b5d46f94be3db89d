// Which gradients are added up: all holders of a gradient in one sum, lying alike at each.
#include "plan/sum_turns.h"
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <unordered_map>
#include <vector>

namespace maestro::plan {
namespace {

class SumCheck {
public:
  SumCheck(const fb::Plan &plan, Work &work)
      : plan(plan), work(work), parameters(plan.parameters()->size()), sumOf(parameters, kNone) {}

  Status check(const Place &root) {
    for (uint32_t e = 0; e < plan.executables()->size(); ++e)
      for (const fb::Binding *binding : *plan.executables()->Get(e)->bindings())
        if (binding->kind() == fb::BindingKind::Gradient)
          gradients[key(e, binding->index())] = binding->split_dim();
    for (uint32_t i = 0; plan.gradient_sums() && i < plan.gradient_sums()->size(); ++i)
      MAESTRO_TRY(checkSum(i, root.item("gradient_sums", i)));
    return checkHolders(root);
  }

private:
  static constexpr uint32_t kAbsent = kNone - 1;

  const fb::Station &station(uint32_t index) const { return *plan.stations()->Get(index); }
  /// The split dim of a gradient there; kAbsent where there is none.
  uint32_t gradientAt(uint32_t stationIndex, uint32_t parameter) const {
    auto found = gradients.find(key(station(stationIndex).executable(), parameter));
    return found == gradients.end() ? kAbsent : found->second;
  }
  static uint64_t key(uint32_t executable, uint32_t parameter) { return uint64_t{executable} << 32 | parameter; }

  Status checkSum(uint32_t index, const Place &place) {
    const fb::GradientSum &sum = *plan.gradient_sums()->Get(index);
    const auto &members = *sum.stations();
    MAESTRO_TRY(work.spend(place, (size_t{members.size()} + 1) * (size_t{sum.parameters()->size()} + 1)));
    if (members.size() < 2)
      return wrong(place / "stations", "there are fewer than two");
    for (uint32_t i = 0; i < members.size(); ++i) {
      MAESTRO_TRY(checkIndex(place.item("stations", i), members.Get(i), "stations", plan.stations()->size()));
      if ((i > 0 && members.Get(i) <= members.Get(i - 1)) ||
          station(members.Get(i)).ranks()->size() != station(members.Get(0)).ranks()->size())
        return wrong(place.item("stations", i), "{} does not ascend, or has not as many ranks as the first",
                     members.Get(i));
    }
    MAESTRO_TRY(checkStages(sum, place));
    for (uint32_t i = 0; i < sum.parameters()->size(); ++i)
      MAESTRO_TRY(checkParameter(members, index, sum.parameters()->Get(i), place.item("parameters", i)));
    return {};
  }

  static Status checkStages(const fb::GradientSum &sum, const Place &place) {
    if (sum.staging_bytes() < kLeastSumStagingBytes)
      return wrong(place / "staging_bytes", "{} is below {}", sum.staging_bytes(), kLeastSumStagingBytes);
    uint64_t product = 1;
    for (uint32_t i = 0; sum.degrees() && i < sum.degrees()->size(); ++i) {
      uint32_t degree = sum.degrees()->Get(i);
      if (degree < 2)
        return wrong(place.item("degrees", i), "{} is below 2", degree);
      if (degree > sum.stations()->size() / product)
        return wrong(place.item("degrees", i), "{}: with those before it there are more than the {} stations", degree,
                     sum.stations()->size());
      product *= degree;
    }
    if (sum.degrees() && product != sum.stations()->size())
      return wrong(place / "degrees", "their product is {}, and there are {} stations", product,
                   sum.stations()->size());
    return {};
  }

  Status checkParameter(const flatbuffers::Vector<uint32_t> &members, uint32_t index, uint32_t parameter,
                        const Place &place) {
    MAESTRO_TRY(checkIndex(place, parameter, "parameters", parameters));
    if (sumOf[parameter] != kNone)
      return wrong(place, "it is in an earlier sum, too");
    sumOf[parameter] = index;
    for (uint32_t member : members) {
      uint32_t own = gradientAt(member, parameter);
      if (own == kAbsent || own != gradientAt(members.Get(0), parameter))
        return wrong(place, "stations[{}] has no Gradient of it, or another part than the first", member);
    }
    return {};
  }

  /// A gradient that several stations hold and do not add up would differ between them.
  Status checkHolders(const Place &root) const {
    std::vector<uint32_t> stationsOf(plan.executables()->size(), 0), holdersOf(parameters, 0);
    for (const fb::Station *station : *plan.stations())
      ++stationsOf[station->executable()];
    for (auto [place, dim] : gradients)
      holdersOf[place & UINT32_MAX] += stationsOf[place >> 32];
    for (uint32_t p = 0; p < parameters; ++p) {
      uint32_t holders = holdersOf[p],
               added = sumOf[p] == kNone ? 0 : plan.gradient_sums()->Get(sumOf[p])->stations()->size();
      if (holders > 1 && holders != added)
        return wrong(root / "gradient_sums", "{} stations hold the gradient of parameters[{}], and {} add it up",
                     holders, p, added);
    }
    return {};
  }

  const fb::Plan &plan;
  Work &work;
  size_t parameters;
  std::unordered_map<uint64_t, uint32_t> gradients; ///< The split dim, by executable and parameter.
  std::vector<uint32_t> sumOf;                      ///< By parameter.
};

} // namespace

Status verifyGradientSums(const fb::Plan &plan, Work &work) { return SumCheck(plan, work).check(Place::root()); }

} // namespace maestro::plan
