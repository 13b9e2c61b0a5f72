#include "troupe/transport/rendezvous/environment.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <initializer_list>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::transport {

namespace {

// The variables of one launcher; null where it has none.
struct launcher {
  const char* name;
  const char* rank;
  const char* world_size;
  const char* world_size_else;
  const char* local_rank;
  const char* local_world_size;
};

constexpr launcher launchers[] = {
    {"the environment", "RANK", "WORLD_SIZE", nullptr, "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr,
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", nullptr, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
    {"PMIx", "PMIX_RANK", "WORLD_SIZE", nullptr, "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"},
};

std::optional<std::uint32_t> read_number(const environment& env, const char* name,
                                         std::uint32_t smallest, std::uint32_t largest,
                                         const char* meaning) {
  if (!name) return std::nullopt;
  const auto text = env(name);
  if (!text) return std::nullopt;
  const auto value = whole_number<std::uint32_t>(*text);
  if (!value || *value < smallest || *value > largest)
    throw rendezvous_error(
        fmt::format("environment variable {} is '{}', but must be a whole number from {} to {}: {}",
                    name, text->substr(0, 64), smallest, largest, meaning));
  return value;
}

std::optional<std::string> first_of(const environment& env,
                                    std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto value = env(name)) return value;
  return std::nullopt;
}

void check_below(std::optional<std::uint32_t> rank, std::optional<std::uint32_t> size,
                 const char* rank_name, const char* size_name) {
  if (rank && size && *rank >= *size)
    throw rendezvous_error(
        fmt::format("environment variable {} is {}, but {} is {}: ranks go from 0 to {}", rank_name,
                    *rank, size_name, *size, *size - 1));
}

}  // namespace

environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (!value || !*value) return std::nullopt;
    return value;
  };
}

job_place read_job_place(const environment& env) {
  job_place out;
  for (const auto& l : launchers) {
    if (!env(l.rank)) continue;
    const bool second = l.world_size_else && !env(l.world_size);
    const char* size_name = second ? l.world_size_else : l.world_size;
    out.launcher = l.name;
    out.rank = read_number(env, l.rank, 0, largest_world - 1, "the rank of this process");
    out.world_size = read_number(env, size_name, 1, largest_world, "the number of ranks");
    out.local_rank =
        read_number(env, l.local_rank, 0, largest_world - 1, "its rank among those of this host");
    out.local_world_size =
        read_number(env, l.local_world_size, 1, largest_world, "the number of ranks on this host");
    check_below(out.rank, out.world_size, l.rank, size_name);
    check_below(out.local_rank, out.local_world_size, l.local_rank, l.local_world_size);
    break;
  }
  // A size without a rank is for programs that give the rank in code.
  if (!out.rank)
    out.world_size = read_number(env, "WORLD_SIZE", 1, largest_world, "the number of ranks");
  out.all_local =
      out.world_size && (*out.world_size == 1 || out.local_world_size == out.world_size);
  if (out.launcher == "Slurm" && out.world_size) {
    const auto nodes = read_number(env, "SLURM_STEP_NUM_NODES", 1, largest_world,
                                   "the number of nodes of this step");
    if (nodes == 1) {
      out.all_local = true;
      out.local_world_size = out.world_size;
    }
  }
  return out;
}

void throw_missing_rank(const job_place& place) {
  if (place.rank) {
    const char* name = "WORLD_SIZE";
    for (const auto& l : launchers)
      if (place.launcher == l.name) name = l.world_size_else ? l.world_size_else : l.world_size;
    throw rendezvous_error(
        fmt::format("environment variable {} expected, but not set: this is rank {}, so set {} to "
                    "the number of ranks",
                    name, *place.rank, name));
  }
  throw rendezvous_error(
      "environment variable RANK expected, but not set: start the program with troupe-run, srun or "
      "mpirun, or set RANK to this process's rank and WORLD_SIZE to the number of ranks");
}

master_place read_master(const environment& env, const job_place& place, std::string_view job) {
  master_place out;
  if (const auto host = env("MASTER_ADDR")) {
    out.host = *host;
  } else if (place.all_local) {
    out.host = "127.0.0.1";
  } else if (place.launcher == "Slurm") {
    // Rank 0 runs on the step's first node, unless the user asked for another distribution. Where
    // srun itself runs (SLURM_LAUNCH_NODE_IPADDR) may be a login node, so that comes last.
    if (const auto list = first_of(env, {"SLURM_STEP_NODELIST", "SLURM_NODELIST"}))
      out.host = first_slurm_host(*list);
    else if (const auto node = env("SLURM_LAUNCH_NODE_IPADDR"))
      out.host = *node;
  }
  if (out.host.empty())
    throw rendezvous_error(
        "environment variable MASTER_ADDR expected, but not set: set it to the address of the host "
        "that rank 0 runs on, the same on every rank (with Open MPI: mpirun -x "
        "MASTER_ADDR=ADDRESS), "
        "or LOCAL_WORLD_SIZE to WORLD_SIZE if all ranks run on this host");
  const auto port = read_number(env, "MASTER_PORT", 1, 65'535, "the port that rank 0 listens on");
  if (port)
    out.port = static_cast<std::uint16_t>(*port);
  else if (place.world_size == 1)
    out.port = 0;  // no other process needs to find it
  else
    out.port = derived_port(job);
  return out;
}

std::string read_job_name(const environment& env) {
  if (const auto name = env("TROUPE_JOB_ID")) return *name;
  if (const auto run = env("TORCHELASTIC_RUN_ID"); run && env("RANK")) return *run;
  if (const auto name =
          first_of(env, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}))
    return *name;
  if (const auto job = first_of(env, {"SLURM_JOB_ID", "SLURM_JOBID"})) {
    const auto step = first_of(env, {"SLURM_STEP_ID", "SLURM_STEPID"});
    return step ? *job + "." + *step : *job;
  }
  return "default";
}

std::uint16_t derived_port(std::string_view job) {
  return static_cast<std::uint16_t>(20'000 + stable_hash(job) % 12'000);
}

std::optional<given_secret> read_job_secret(const environment& env) {
  const char* name = "TROUPE_JOB_SECRET";
  try {
    if (const auto text = env(name)) return given_secret{job_secret::from_hex(*text), name};
    name = "TROUPE_JOB_SECRET_FILE";
    if (const auto path = env(name)) return given_secret{job_secret::from_file(*path), *path};
    return std::nullopt;
  } catch (const invalid_argument& e) {
    throw rendezvous_error(
        fmt::format("environment variable {} cannot be used: {}", name, e.fault().text));
  }
}

bool read_trusted_network(const environment& env) {
  return read_number(env, "TROUPE_TRUSTED_NETWORK", 0, 1,
                     "1 if no one else can reach the network") == 1;
}

lending_settings read_lending(const environment& env) {
  constexpr std::uint32_t most = 0xffffffff;
  constexpr std::uint32_t least_lent = 16 << 10;  // smaller tensors are not in the arena
  lending_settings out;
  out.lend =
      read_number(env, "TROUPE_LEND_TENSORS", 0, 1, "1 if tensors are lent within a host") == 1;
  if (const auto said = read_number(env, "TROUPE_HAND_OVER_TENSORS", 0, 1,
                                    "0 if tensors are not even handed over within a host"))
    out.hand_over = *said == 1;
  out.strictly = read_number(env, "TROUPE_LEND_STRICTLY", 0, 1,
                             "1 if no tensor may be copied within a host") == 1;
  out.from = read_number(env, "TROUPE_LEND_FROM", least_lent, most,
                         "bytes of the smallest tensor that is lent within a host")
                 .value_or(out.from);
  out.copies_from = read_number(env, "TROUPE_LEND_COPIES_FROM", least_lent, most,
                                "bytes of the smallest tensor of which a copy is lent")
                        .value_or(out.copies_from);
  return out;
}

}  // namespace troupe::transport
