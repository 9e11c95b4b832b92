#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads the figures of the container from its control groups. The resource guard, the heartbeat and
 * the limit on payloads use it. The hard part is the two versions of control groups, and limits
 * that a group further up may set.
 */

/* How many nested groups are examined at most. */
#define CGROUP_DEPTH_MAX 32

/*
 * What the control groups of this process, in a container those of the container, report about
 * memory, tasks and processor time, for version 1 and version 2. Figures are bytes, microseconds or
 * counts; -1 means unknown. The files are the kernel's, so that reading them never blocks.
 */
struct cgroup {
  int version; /* of the hierarchy that counts memory; 0 if there is none */
  /* Open files; -1 for those that do not exist. */
  int events, stat, usage, peak;
  int kills_group;
  int tasks;
  int cpu;
  bool cpu_is_stat;             /* `cpu` is cpu.stat of version 2, not cpuacct.usage of version 1 */
  int limits[CGROUP_DEPTH_MAX]; /* of this process's group, then of each group above it */
  size_t limit_count;
};

#define CGROUP_NONE ((struct cgroup){0, -1, -1, -1, -1, -1, -1, -1, false, {0}, 0})

/* Finds the groups by /proc/self/cgroup, below /sys/fs/cgroup. `root` is prepended to every path;
   it is "" except in tests. */
void cgroup_open(struct cgroup *self, const char *root);

/* Returns this process's own groups, which the first call opens and nobody closes. */
const struct cgroup *cgroup_own(void);

/* Returns the lowest memory limit of the group and of the visible groups above it. */
int64_t cgroup_memory_limit(const struct cgroup *self);

int64_t cgroup_memory(const struct cgroup *self);
int64_t cgroup_memory_peak(const struct cgroup *self); /* since the group was created */

/* Returns the memory that the kernel cannot reclaim under pressure, which is what triggers an
   out-of-memory kill. The page cache counts in cgroup_memory, but can be reclaimed. */
int64_t cgroup_memory_unreclaimable(const struct cgroup *self);

/* Returns how much of that is tmpfs files and shared memory, which belong to no single process. */
int64_t cgroup_memory_shmem(const struct cgroup *self);

/* Returns how many processes of the group the out-of-memory killer has killed. */
int64_t cgroup_oom_kills(const struct cgroup *self);

/* Whether such a kill takes all processes of the group (memory.oom.group of version 2). */
bool cgroup_oom_kills_group(const struct cgroup *self);

/* Returns the number of processes and of their further threads, zombies included. The root of a
   hierarchy has no such figure. */
int64_t cgroup_tasks(const struct cgroup *self);

int64_t cgroup_cpu_us(const struct cgroup *self);
