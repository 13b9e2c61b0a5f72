/* Collectives of an MPI on one host, timed as tests/bench/collective_plan.hpp says:
     mpicc -O2 -march=native collectives.c -o collectives && mpirun -n 2 ./collectives all_reduce
   barrier Rank 0 prints a line for each operation and size: its name, bytes, median and 99th
   percentile in microseconds. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_TIMES = 3000 };

static const size_t sizes[] = {4, 1 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20};
static int rank, ranks;
static float *input, *output;
static volatile float sink;

/* Memory on huge pages where the kernel gives them, as the arena's is. */
static float* memory(size_t bytes) {
  const size_t page = 2u << 20;
  bytes = (bytes + page - 1) / page * page;
  void* out = NULL;
  if (posix_memalign(&out, page, bytes) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  madvise(out, bytes, MADV_HUGEPAGE);
  memset(out, 0, bytes);
  return out;
}

static void fill(float value, size_t elements) {
  for (size_t i = 0; i < elements; ++i) input[i] = value;
}

static void read_lines(size_t elements) {
  float sum = 0;
  for (size_t i = 0; i < elements; i += 16) sum += output[i];
  sink = sum;
}

enum operation {
  ALL_REDUCE,
  BROADCAST,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_TO_ALL,
  BARRIER,
  BROADCAST_REWRITE,
  ALL_REDUCE_ASYNC,
  UNKNOWN
};
static const char* names[] = {"all_reduce", "broadcast", "all_gather",        "reduce_scatter",
                              "all_to_all", "barrier",   "broadcast_rewrite", "all_reduce_async"};

/* What programs do with their tensors between two operations. */
static void write_input(enum operation what, int k, int part) {
  switch (what) {
    case ALL_REDUCE:
    case ALL_REDUCE_ASYNC: fill(1, k); break;
    case BROADCAST:
    case BROADCAST_REWRITE: fill(rank, k); break;
    case ALL_GATHER: fill(rank, k), read_lines((size_t)k * ranks); break;
    case REDUCE_SCATTER: fill(1, (size_t)part * ranks), read_lines(part); break;
    case ALL_TO_ALL: fill(rank, (size_t)part * ranks), read_lines((size_t)part * ranks); break;
    default: break;
  }
}

static void run(enum operation what, int k, int part) {
  MPI_Request request;
  switch (what) {
    case ALL_REDUCE:
      MPI_Allreduce(MPI_IN_PLACE, input, k, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case BROADCAST: MPI_Bcast(input, k, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case BROADCAST_REWRITE: MPI_Bcast(input, k, MPI_FLOAT, 0, MPI_COMM_WORLD), fill(0, k); break;
    case ALL_GATHER:
      MPI_Allgather(input, k, MPI_FLOAT, output, k, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case REDUCE_SCATTER:
      MPI_Reduce_scatter_block(input, output, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case ALL_TO_ALL:
      MPI_Alltoall(input, part, MPI_FLOAT, output, part, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case ALL_REDUCE_ASYNC:
      MPI_Iallreduce(MPI_IN_PLACE, input, k, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    default: MPI_Barrier(MPI_COMM_WORLD);
  }
}

static int is_right(enum operation what, int k, int part) {
  switch (what) {
    case ALL_REDUCE:
    case ALL_REDUCE_ASYNC: return input[k - 1] == ranks;
    case BROADCAST:
    case BROADCAST_REWRITE: return input[k - 1] == 0;
    case ALL_GATHER: return output[(size_t)k * ranks - 1] == ranks - 1;
    case REDUCE_SCATTER: return output[part - 1] == ranks;
    case ALL_TO_ALL: return output[(size_t)part * ranks - 1] == ranks - 1;
    default: return 1;
  }
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

/* Of the slowest rank, in order, in microseconds; on all ranks. */
static void time_of(enum operation what, int k, int part, int warm_up, int times, double* slowest) {
  static double taken[MOST_TIMES];
  for (int i = -warm_up; i < times; ++i) {
    write_input(what, k, part);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = MPI_Wtime();
    run(what, k, part);
    if (i >= 0) taken[i] = (MPI_Wtime() - before) * 1e6;
  }
  if (!is_right(what, k, part)) {
    fprintf(stderr, "the result of %s is wrong\n", names[what]);
    MPI_Abort(MPI_COMM_WORLD, 4);
  }
  MPI_Allreduce(taken, slowest, times, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  qsort(slowest, times, sizeof *slowest, ascending);
}

static void measure(enum operation what, size_t bytes) {
  static double slowest[MOST_TIMES];
  const int k = (int)(bytes / sizeof(float)), part = k / ranks > 0 ? k / ranks : 1;
  time_of(what, k, part, 1, 2, slowest);
  const double probe = slowest[0], wanted = probe > 0 ? 30000 / probe : MOST_TIMES;
  const int times = wanted < 5 ? 5 : wanted > MOST_TIMES ? MOST_TIMES : (int)wanted;
  time_of(what, k, part, probe > 1000 ? 0 : 3, times, slowest);
  if (rank == 0)
    printf("%s %zu %.4f %.4f\n", names[what], bytes, slowest[times / 2], slowest[times * 99 / 100]),
        fflush(stdout);
}

static int is_timed(enum operation what, size_t bytes) {
  if (what == BARRIER || what == ALL_REDUCE_ASYNC) return bytes == 4;
  return what != BROADCAST_REWRITE || bytes >= 64 << 10;
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t number = sizeof sizes / sizeof *sizes, largest = sizes[number - 1];
  input = memory(largest);
  output = memory(largest * ranks);
  for (int i = 1; i < count; ++i) {
    enum operation what = ALL_REDUCE;
    while (what != UNKNOWN && strcmp(names[what], arguments[i]) != 0) ++what;
    if (what == UNKNOWN) {
      fprintf(stderr, "no such operation: %s\n", arguments[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t s = 0; s < number; ++s)
      if (is_timed(what, sizes[s])) measure(what, sizes[s]);
  }
  MPI_Finalize();
  return 0;
}
