#include "troupe/apps/collectives/options.hpp"

#include <fmt/format.h>

#include <map>

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"

namespace collectives {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 2 build/apps/collectives --op all_reduce --min 4 --max 64M
  build/apps/troupe-run -n 4 build/apps/collectives --op all_gather --check --plot bandwidth.svg

Every rank writes its input between operations. A time is the slowest rank's, the median over the
iterations. "size" are the bytes of the larger of input and output, "count" the elements that a rank
gives to another. Algorithm bandwidth is size / time; bus bandwidth is that times
  2 (n - 1) / n   for all_reduce
  (n - 1) / n     for all_gather, all_to_all, gather, reduce_scatter, scatter
  1               for broadcast, reduce
as nccl-tests has it (doc/PERFORMANCE.md there): what each rank must send or receive, whatever the
number of ranks n. Where the ranks share memory it is only for comparing.

The exit code is 0, 2 for a wrong command line, and 1 for any other failure, a wrong result among
them.)";

const std::map<std::string, operation> operations = {
    {"all_reduce", operation::all_reduce}, {"all_gather", operation::all_gather},
    {"all_to_all", operation::all_to_all}, {"barrier", operation::barrier},
    {"broadcast", operation::broadcast},   {"gather", operation::gather},
    {"reduce", operation::reduce},         {"reduce_scatter", operation::reduce_scatter},
    {"scatter", operation::scatter},
};

const std::map<std::string, c10::ScalarType> dtypes = {
    {"float", c10::ScalarType::Float}, {"double", c10::ScalarType::Double},
    {"half", c10::ScalarType::Half},   {"bfloat16", c10::ScalarType::BFloat16},
    {"int8", c10::ScalarType::Char},   {"uint8", c10::ScalarType::Byte},
    {"int32", c10::ScalarType::Int},   {"int64", c10::ScalarType::Long},
};

const std::map<std::string, troupe::reduce_op> reductions = {
    {"sum", troupe::reduce_op::sum}, {"product", troupe::reduce_op::product},
    {"min", troupe::reduce_op::min}, {"max", troupe::reduce_op::max},
    {"avg", troupe::reduce_op::avg},
};

template <class Value>
void add_choice(CLI::App& app, const std::string& name, Value& value, const std::string& what,
                const std::map<std::string, Value>& choices) {
  std::string known, chosen;
  for (const auto& [text, one] : choices) {
    known += (known.empty() ? "" : ", ") + text;
    if (one == value) chosen = text;
  }
  app.add_option_function<std::string>(
         name, [&value, &choices](const std::string& text) { value = choices.at(text); },
         what + ": " + known)
      ->check(CLI::IsMember(choices).description(""))
      ->type_name("NAME")
      ->default_str(chosen);
}

}  // namespace

const char* name_of(operation what) {
  for (const auto& [name, one] : operations)
    if (one == what) return name.c_str();
  return "unknown";
}

bool reduces(operation what) {
  return what == operation::all_reduce || what == operation::reduce ||
         what == operation::reduce_scatter;
}

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  CLI::App app("Measures a collective of all ranks of a job, by size.", "collectives");
  common::describe(app, footer);
  add_choice(app, "--op", opts.op, "What to measure", operations);
  app.add_option("--min", opts.smallest, "Smallest size in bytes; K, M and G are powers of 1024")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4")
      ->type_name("SIZE");
  app.add_option("--max", opts.largest, "Largest size")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("64M")
      ->type_name("SIZE");
  app.add_option("--factor", opts.factor, "Factor between two sizes")
      ->check(whole_number<std::uint64_t>(2, 1 << 20))
      ->capture_default_str();
  add_choice(app, "--dtype", opts.dtype, "Type of the elements", dtypes);
  add_choice(app, "--reduction", opts.reduction, "How values are combined", reductions);
  app.add_option("--iterations", opts.iterations, "Operations of each size that are timed")
      ->check(whole_number<std::uint64_t>(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--warmup", opts.warmup, "Operations before these")
      ->check(whole_number<std::uint64_t>(0, 1'000'000))
      ->capture_default_str();
  app.add_flag("--check", opts.check, "Compare all elements of a result of each size");
  app.add_flag("--async", opts.async, "By work handles, which are waited for at once");
  common::add_job_options(app, opts, "before the run fails");
  app.add_option("--plot", opts.plot, "Write bandwidth by size, as SVG")->type_name("FILE");
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  if (opts.smallest > opts.largest || opts.smallest == 0) {
    fmt::print(stderr, "--min must be at least 1, and at most --max\n");
    exit_code = 2;
    return std::nullopt;
  }
  return opts;
}

}  // namespace collectives
