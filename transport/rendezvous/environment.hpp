#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"

namespace troupe::transport {

/// Looks up an environment variable; an empty value counts as none.
using environment = std::function<std::optional<std::string>(const char* name)>;

/// The most ranks that a job can have.
inline constexpr std::uint32_t largest_world = 1u << 20;

/// The environment of this process.
environment process_environment();

/// The rank of this process and its job, as far as the environment says.
///
/// Read from the first of these that is set, since launchers inherit each other's variables: RANK,
/// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE (troupe-run, torchrun); OMPI_COMM_WORLD_RANK, _SIZE,
/// _LOCAL_RANK, _LOCAL_SIZE (Open MPI); PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
/// (MPICH, Intel MPI); SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID (srun);
/// PMIX_RANK, WORLD_SIZE, PMIX_LOCAL_RANK, PMIX_LOCAL_SIZE (other launchers with PMIx).
struct job_place {
  std::string launcher;  ///< "Slurm", ...; empty if there is no rank in the environment
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> world_size;
  std::optional<std::uint32_t> local_rank;
  std::optional<std::uint32_t> local_world_size;

  /// True if the environment says that all ranks run on this host.
  bool all_local = false;
};

/// Throws rendezvous_error naming the variable that is malformed or contradicts another.
job_place read_job_place(const environment& env);

/// Throws rendezvous_error naming the variable that is expected and what to set it to.
[[noreturn]] void throw_missing_rank(const job_place& place);

/// Where rank 0's store listens.
struct master_place {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any free one
};

/// MASTER_ADDR and MASTER_PORT. Without MASTER_ADDR: 127.0.0.1 if all ranks are local, and else the
/// first node of Slurm's step. Without MASTER_PORT: `derived_port` of `job`, or any free one for a
/// job of one rank. Throws rendezvous_error naming the variable that is missing or malformed.
master_place read_master(const environment& env, const job_place& place, std::string_view job);

/// The job's name: TROUPE_JOB_ID; else the unique name of the job under torchrun
/// (TORCHELASTIC_RUN_ID), Slurm (SLURM_JOB_ID.SLURM_STEP_ID), PMIx (PMIX_NAMESPACE) or Open MPI;
/// else "default".
std::string read_job_name(const environment& env);

/// A port from 20000 to 31999, below the ephemeral ports, from a hash of the job's name.
std::uint16_t derived_port(std::string_view job);

/// A secret that the environment gives, and where it was found.
struct given_secret {
  job_secret secret;
  std::string whence;
};

/// TROUPE_JOB_SECRET, or the contents of the file that TROUPE_JOB_SECRET_FILE names. Throws
/// rendezvous_error when the variable is malformed, or the file is accessible to other users.
std::optional<given_secret> read_job_secret(const environment& env);

/// TROUPE_TRUSTED_NETWORK: 1 for a network on which UCX's own protocol may be used, 0 or unset for
/// any other. Throws rendezvous_error for anything else.
bool read_trusted_network(const environment& env);

/// What TROUPE_LEND_TENSORS, TROUPE_HAND_OVER_TENSORS, TROUPE_LEND_STRICTLY, TROUPE_LEND_FROM and
/// TROUPE_LEND_COPIES_FROM say about tensors for nodes of the same host.
struct lending_settings {
  bool lend = false;
  std::optional<bool> hand_over{};
  bool strictly = false;
  std::size_t from = std::size_t{16} << 10;         ///< bytes; smaller ones are sent
  std::size_t copies_from = std::size_t{64} << 10;  ///< bytes
};

/// Throws rendezvous_error for what is not a number, or not in range.
lending_settings read_lending(const environment& env);

/// The first host of a Slurm node list, such as "node[01-03,07],login". Throws rendezvous_error for
/// a malformed list.
std::string first_slurm_host(std::string_view list);

/// All hosts of a Slurm node list, at most `limit`.
std::vector<std::string> slurm_hosts(std::string_view list, std::size_t limit = 65'536);

}  // namespace troupe::transport
