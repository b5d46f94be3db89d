// What maestro-dump shows: golden texts of the example, completeness of JSON, well-formed MLIR, diff, lint.
#include "plan/print/formats.h"
#include "plan/print/print.h"
#include "plan/print/text.h"
#include "test/plan/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace maestro::plan {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Plan loaded(const std::vector<uint8_t> &bytes) {
  auto plan = Plan::fromBytes(bytes);
  if (!plan)
    throw std::runtime_error(std::string(plan.status().message()));
  return *std::move(plan);
}

Plan example() { return loaded(test::exampleBytes()); }

std::string readFile(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string source(const std::string &name) { return std::string(MAESTRO_SOURCE) + "/" + name; }

std::string printed(const Plan &plan, Format format) { return print(plan, format, Selection(plan)); }

/// With MAESTRO_WRITE_GOLDEN set, writes the files instead; look at what changed before committing that.
class Golden : public testing::TestWithParam<std::pair<const char *, Format>> {};

TEST_P(Golden, exampleLooksAsBefore) {
  auto [name, format] = GetParam();
  std::string path = source(std::string("test/plan/golden/") + name), text = printed(example(), format);
  if (std::getenv("MAESTRO_WRITE_GOLDEN"))
    std::ofstream(path) << text;
  EXPECT_EQ(text, readFile(path)) << "written anew by: MAESTRO_WRITE_GOLDEN=1 plan_test";
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         testing::Values(std::pair("summary.txt", Format::Summary),
                                         std::pair("mlir.mlir", Format::Mlir), std::pair("dot.dot", Format::Dot)));

/// Everything in `frozen` is in `current` with the same value; objects may have gained members since.
void expectContains(const json &current, const json &frozen, const std::string &place) {
  ASSERT_EQ(current.type(), frozen.type()) << place;
  if (frozen.is_object()) {
    for (auto &[key, value] : frozen.items()) {
      ASSERT_TRUE(current.contains(key)) << place << "." << key;
      expectContains(current[key], value, place + "." + key);
    }
  } else if (frozen.is_array()) {
    ASSERT_EQ(current.size(), frozen.size()) << place;
    for (size_t i = 0; i < frozen.size(); ++i)
      expectContains(current[i], frozen[i], place + "[" + std::to_string(i) + "]");
  } else {
    EXPECT_EQ(current, frozen) << place;
  }
}

/// The bytes of version 1.0 must be read by every later version, with the same values.
TEST(Frozen, version1KeepsItsMeaning) {
  auto plan = Plan::load(source("test/plan/frozen/v1.mpl"));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  expectContains(json::parse(printed(*plan, Format::Json)), json::parse(readFile(source("test/plan/frozen/v1.json"))),
                 "plan");
}

/// Field names of every table, as written in the schema.
std::map<std::string, std::set<std::string>> schemaFields() {
  std::map<std::string, std::set<std::string>> fields;
  std::istringstream schema(readFile(source("plan/plan.fbs")));
  std::regex table("^(?:table|struct) (\\w+) \\{"), field("^  (\\w+): ");
  std::string line, current;
  for (std::smatch match; std::getline(schema, line);) {
    if (std::regex_search(line, match, table))
      current = match[1];
    else if (line == "}")
      current.clear();
    else if (!current.empty() && std::regex_search(line, match, field))
      fields[current].insert(match[1]);
  }
  return fields;
}

/// The sets of keys of all objects in a document.
void collectKeys(const json &value, std::set<std::set<std::string>> &keys) {
  if (value.is_object()) {
    std::set<std::string> own;
    for (auto &[key, member] : value.items()) {
      own.insert(key);
      collectKeys(member, keys);
    }
    keys.insert(own);
  } else if (value.is_array()) {
    for (const json &item : value)
      collectKeys(item, keys);
  }
}

TEST(Json, hasEveryFieldOfEveryTable) {
  std::set<std::set<std::string>> keys;
  PlanBuilder builder = test::exampleBuilder();
  test::addReplica(builder);                       // Without one, there are no sums.
  fb::MachineT &machine = *builder.plan().machine; // Two nodes have equally many devices.
  machine.devices = machine.links.back()->spans = 4;
  machine.device_kinds.back()->devices = 3;
  test::addSpare(builder);
  collectKeys(json::parse(printed(loaded(test::packUnverified(builder.plan())), Format::Json)), keys);
  auto fields = schemaFields();
  ASSERT_GE(fields.size(), 25u);
  for (auto &[table, names] : fields)
    EXPECT_TRUE(keys.count(names)) << "table " << table << " of plan.fbs: json.cpp does not write exactly its fields";
}

TEST(Mlir, hasEveryField) {
  std::string printer = readFile(source("plan/print/mlir.cpp"));
  for (auto &[table, names] : schemaFields())
    for (const std::string &field : names)
      if (table != "DimExpr" && table != "Plan") // Sizes as text; Plan's own are other rows.
        EXPECT_TRUE(std::regex_search(printer, std::regex("(\\.|->)" + field + "\\(\\)"))) << table << "." << field;
}

TEST(Json, oddNumbersAndTextsStayJson) {
  PlanBuilder builder = test::exampleBuilder();
  builder.plan().name = "quotes \" and \\ and ünïcode";
  builder.plan().attribute_lists[1]->items[0]->floats = {-INFINITY, 1e300, 0.1};
  Plan plan = loaded(test::packUnverified(builder.plan()));
  json document = json::parse(printed(plan, Format::Json));
  EXPECT_EQ(document["name"], "quotes \" and \\ and ünïcode");
  EXPECT_EQ(document["attribute_lists"][1]["items"][0]["floats"], json({"-inf", 1e300, 0.1}));
  EXPECT_EQ(document["executables"][1]["buffers"][11]["constant"], "AACAPwAAAEA=");
  EXPECT_EQ(document["workload_hash"], "0123456789abcdef");
}

TEST(Print, oneSectionAlone) {
  Plan plan = example();
  auto student = Selection::section(plan, "student");
  ASSERT_TRUE(student.isOk());
  for (Format format : {Format::Summary, Format::Mlir, Format::Html}) {
    std::string text = print(plan, format, *student);
    EXPECT_THAT(text, HasSubstr("adamw"));
    EXPECT_THAT(text, Not(HasSubstr("Memory of 'teacher'")));
    EXPECT_THAT(text, Not(HasSubstr("teacher.embed.weight")));
  }
  EXPECT_THAT(explain(plan, *student), HasSubstr("student.micro_batch = 4 samples\n    pinned with --pin"));
  EXPECT_THAT(explain(plan, *student),
              HasSubstr("\n    next best: 2 samples, 72 padded tokens: 280 ms, 1.12 x; device 1 works 30 ms longer\n"));
  EXPECT_THAT(explain(plan, *student), Not(HasSubstr("optimizer")));
  EXPECT_THAT(explain(plan, Selection(plan)),
              HasSubstr("train.optimizer = adamw (default)\n    the workload names none"));
  EXPECT_THAT(std::string(Selection::section(plan, "studnt").status().message()),
              HasSubstr("no section 'studnt'; it has teacher, student; did you mean 'student'?"));
}

TEST(Print, htmlEscapesNames) {
  PlanBuilder builder = test::exampleBuilder();
  builder.plan().name = "<script>&";
  std::string html = printed(loaded(test::packUnverified(builder.plan())), Format::Html);
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;&amp;"));
}

/// Every element is closed, in order, as XML has it.
void expectWellFormed(const std::string &html) {
  std::vector<std::string> open;
  std::regex tag("<(/?)([a-zA-Z][a-zA-Z0-9]*)[^<>]*?(/?)>");
  for (std::sregex_iterator match(html.begin(), html.end(), tag), end; match != end; ++match) {
    if ((*match)[1] == "/") {
      ASSERT_FALSE(open.empty()) << match->str();
      ASSERT_EQ(open.back(), (*match)[2]) << "at " << match->position();
      open.pop_back();
    } else if ((*match)[3] != "/") {
      open.push_back((*match)[2]);
    }
  }
  EXPECT_TRUE(open.empty());
}

size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size())
    ++count;
  return count;
}

TEST(Html, thePageIsWholeAndNeedsNothingElse) {
  std::string html = printed(example(), Format::Html);
  expectWellFormed(html);
  for (const char *outside : {"http", "<script", "src=", "<link", "url("})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  EXPECT_EQ(countOf(html, "<svg"), countOf(html, "role=\"img\"><title>")) << "each drawing has a title";
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme:dark"));
}

/// Rates that nobody measured are said beside each predicted time.
TEST(Print, predictionsSayWhatIsAssumed) {
  PlanBuilder builder = test::exampleBuilder();
  auto &quantity = builder.plan().quantities.emplace_back(std::make_unique<fb::QuantityT>());
  quantity->name = "machine.arithmetic.0";
  quantity->source = "products in f32; assumed: 100 GFLOP/s and 8 GB/s a thread";
  Plan plan = loaded(test::packUnverified(builder.plan()));
  auto lineWith = [](const std::string &text, const std::string &word) {
    size_t at = text.find(word), end = text.find('\n', at);
    return at == text.npos ? "" : text.substr(at, end - at);
  };
  EXPECT_THAT(lineWith(printed(plan, Format::Summary), "predicted: 250 ms"),
              HasSubstr("; assumed: 100 GFLOP/s and 8 GB/s a thread"));
  EXPECT_THAT(lineWith(printed(plan, Format::Html), "predicted to take 250 ms"), HasSubstr("assumed: 100 GFLOP/s"));
  EXPECT_THAT(printed(example(), Format::Summary), Not(HasSubstr("assumed")));
}

TEST(Print, numberedModulesOfOneKindAreOneName) {
  EXPECT_THAT(namePatterns({"wte.weight", "h.0.attn.weight", "h.0.mlp.bias", "h.1.attn.weight", "h.10.attn.weight",
                            "lone.7.bias", "head.0"}),
              testing::ElementsAre("wte.weight", "h.*.attn.weight (3)", "h.0.mlp.bias", "lone.7.bias", "head.0"));
  PlanBuilder builder = test::exampleBuilder();
  for (auto &parameter : builder.plan().parameters)
    if (parameter->name == "positions")
      parameter->kind = fb::ParameterKind::Parameter;
  std::string text = printed(loaded(test::packUnverified(builder.plan())), Format::Summary);
  EXPECT_THAT(text, HasSubstr("\n  student trains: embed.weight, lm_head.bias\n  student keeps as it is: positions\n"));
}

/// Lengths in drawings are those of the plan: 0.25 s of 0.3 s; 65 MiB and 64 MiB of a limit of 1 GiB that lies beyond.
TEST(Html, drawingsHaveThePlansNumbers) {
  std::string html = printed(example(), Format::Html);
  EXPECT_THAT(html, HasSubstr("<title>search: 250 ms, 1.00 x</title>"));
  EXPECT_THAT(html, HasSubstr("width=\"466.67\" height=\"16\" fill=\"var(--bar)\""));
  EXPECT_THAT(html, HasSubstr("width=\"560.00\" height=\"16\" fill=\"var(--other)\""));
  EXPECT_THAT(html, HasSubstr("width=\"373.33\" height=\"16\" fill=\"var(--less)\""));
  EXPECT_THAT(html, HasSubstr("<td>device 1</td><td class=\"n\">1</td><td>student</td><td class=\"n\">65.0 MiB</td>"));
  EXPECT_THAT(html, HasSubstr("<title>device 0: teacher replica 0</title>"));
  EXPECT_THAT(html, HasSubstr("<title>device 1: student replica 0</title>"));
  EXPECT_THAT(
      html,
      HasSubstr("<td>student.micro_batch</td><td class=\"n\">280 ms, 1.12 x</td><td>2 samples, 72 padded tokens</td>"));
  EXPECT_THAT(
      html,
      HasSubstr("<td>device.flops_per_second</td><td class=\"n\">100 GFLOP/s</td><td>measured: device.yaml</td>"));
}

TEST(Html, devicesThatAreAlikeAreOneRow) {
  PlanBuilder builder = test::exampleBuilder();
  test::addReplica(builder);
  builder.plan().ranks[2]->peak_bytes = builder.plan().ranks[1]->peak_bytes;
  std::string html = printed(loaded(test::packUnverified(builder.plan())), Format::Html);
  EXPECT_THAT(html, HasSubstr("<td>devices 1-2</td><td class=\"n\">2</td><td>student</td>"));
}

TEST(Print, formatNamesAreThoseOfTheFormats) {
  EXPECT_EQ(formatFromName("html"), Format::Html);
  EXPECT_EQ(formatFromName("summary"), Format::Summary);
  EXPECT_EQ(formatFromName("HTML"), std::nullopt);
}

TEST(Diff, namesWhatChanged) {
  Plan before = example();
  EXPECT_EQ(diff(before, before), "the plans are the same\n");
  PlanBuilder builder = test::exampleBuilder();
  fb::PlanT &plan = builder.plan();
  plan.training->global_batch = 16;
  plan.decisions[1]->choice = "adam";
  plan.parameters[1]->name = "lm_head.new_bias";
  plan.executables[1]->programs[6]->calls.pop_back();
  plan.executables[1]->regions[6]->bytes += 64;
  plan.sections[test::kStudent]->micro_batch_samples = 2;
  plan.sections[test::kStudent]->layout->recompute = false;
  plan.sections[test::kStudent]->layout->split_backward = 1;
  plan.executables[1]->samples = 2;
  plan.prediction->step_seconds = 0.2;
  plan.ranks[1]->peak_bytes = 60 << 20;
  Plan after = loaded(test::packUnverified(plan));
  StepTimes old, fresh;
  old.stepSeconds = 0.25, fresh.stepSeconds = 0.2;
  old.sections = {{0.1, 0.15}, {0.2, 0.05}};
  fresh.sections = {{0.1, 0.15}, {0.18, 0.02}};
  std::string text = diff(before, after, &old, &fresh);
  EXPECT_THAT(text, testing::StartsWith("predicted step: 250 ms -> 200 ms (-20.0 %)\n"
                                        "devices: 2, as before\n"
                                        "memory of the fullest device: 65.0 MiB -> 64.0 MiB (-1.5 %)\n"
                                        "section student:\n"
                                        "  micro-batch: 4 samples, 72 padded tokens -> 2 samples, 72 padded tokens; "
                                        "this alone, from the first plan: 280 ms, 1.12 x\n"
                                        "  recompute: selective -> none\n"
                                        "  split backward: no -> all\n"
                                        "  memory of its fullest device: 65.0 MiB -> 60.0 MiB\n"
                                        "  busy in a step: 200 ms -> 180 ms (-10.0 %)\n"
                                        "  idle in a step: 50.0 ms -> 20.0 ms (-60.0 %)\n"
                                        "\nfacts\n"));
  EXPECT_THAT(text, HasSubstr("~ train.global_batch: 8 -> 16\n"));
  EXPECT_THAT(text, HasSubstr("~ decision train.optimizer: adamw (default) -> adam (default)\n"));
  EXPECT_THAT(text, HasSubstr("- parameter student.lm_head.bias: [16], trainable, inline value "));
  EXPECT_THAT(text, HasSubstr("+ parameter student.lm_head.new_bias: "));
  EXPECT_THAT(text, HasSubstr("- student Update cast: 1 calls\n"));
  EXPECT_THAT(text, HasSubstr("~ student memory Workspace: 1 x 6,144 bytes -> 1 x 6,208 bytes\n"));
  EXPECT_THAT(text, Not(HasSubstr("train.seed")));
}

TEST(Lint, findsWhatLooksWrong) {
  EXPECT_TRUE(lint(example()).empty());
  PlanBuilder builder = test::exampleBuilder();
  fb::PlanT &plan = builder.plan();
  plan.parameters[3]->initializer = fb::Initializer::None;
  plan.version_minor = 0; // Later versions must have one.
  plan.executables[0]->programs.pop_back();
  plan.executables[1]->buffers.push_back(std::make_unique<fb::BufferT>(*plan.executables[1]->buffers[0]));
  plan.executables[1]->regions[6]->bytes += 8192;
  std::vector<std::string> lines;
  for (const Finding &finding : lint(loaded(test::packUnverified(plan))))
    lines.push_back(finding.place + ": " + finding.text);
  EXPECT_THAT(lines, testing::ElementsAre(HasSubstr("component teacher: 1 parameters have no value and no initializer"),
                                          HasSubstr("executable teacher: there is no Evaluate program"),
                                          HasSubstr("executable student: 1 buffers are used by no call"),
                                          HasSubstr("no buffer lies in the last 8.00 KiB of region 6 (Workspace)")));
}

TEST(Text, numbersAsPeopleReadThem) {
  EXPECT_EQ(humanBytes(0), "0 B");
  EXPECT_EQ(humanBytes(1023), "1023 B");
  EXPECT_EQ(humanBytes(1536), "1.50 KiB");
  EXPECT_EQ(humanBytes(uint64_t{3} << 40), "3.00 TiB");
  EXPECT_EQ(humanCount(999999), "999,999");
  EXPECT_EQ(humanCount(7.6e9), "7.60 billion");
  EXPECT_EQ(humanFlops(2.5e12), "2.50 TFLOP");
  EXPECT_EQ(humanSeconds(0.0125), "12.5 ms");
  EXPECT_EQ(humanSeconds(0.00342), "3.42 ms");
  EXPECT_EQ(humanSeconds(90), "90.00 s");
  EXPECT_EQ(humanSeconds(3.2e-5), "32 us");
  EXPECT_EQ(humanBandwidth(8e9), "8.00 GB/s");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

} // namespace
} // namespace maestro::plan
