#ifndef AGENT_PROCESS_PROCESS_TREE_H
#define AGENT_PROCESS_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Which processes belong to a step, and how to signal all of them. A process group is not enough:
 * a child may leave it (setsid) or lose its parent (daemons). The agent is a child subreaper, so
 * that every orphan stays its descendant, and each step's environment carries a tag. What a process
 * says of itself comes last; a process belongs to a step when, the first rule that applies,
 *   - it or one of its ancestors is in the session that the step's command leads: yes. When it or
 *     an ancestor below the agent is older than the step: no;
 *   - one of its session, or of an ancestor's, is known by the first rule: as that one, since a
 *     session never has processes of two steps;
 *   - it or the nearest ancestor has a tag of this agent: when it is the step's;
 *   - it descends from the agent, and was made while no other command ran beside: yes.
 *
 * What remains wrong is about processes that have lost their parent, in a session of which nobody
 * older than the step is left, nor anybody with living ancestors up to the command. One with a
 * cleared environment whose parent an earlier step left in the background is taken for the later
 * step's; one that was made while two commands ran is nobody's, and ends with the program; one with
 * another step's tag is hidden from its own.
 */
#define PROCESS_TREE_TAG "SANDBOX_STEP_TAG"

/*
 * A tag is "<job>-<pid>-<start>-<step>": eight hexadecimal digits for the job, the agent's pid, its
 * start in milliseconds since 1970, the number of the step in this agent.
 *
 * What an agent leaves that is killed goes to init or another reaper, where the next agent of the
 * job finds it: by a tag of the job, its own, its nearest ancestor's, or one in its session; and
 * because the agent of the tag is not among its ancestors. A living agent is, of all that its steps
 * have started.
 */
#define PROCESS_TREE_JOB_SIZE (8 + 1)
#define PROCESS_TREE_STEP_VARIABLE "SANDBOX_STEP_ID"

/*
 * The agent's own children that run beside each other: a process below one of them, or in its
 * session, is of no other's step. The same holds for the child itself before it has a tag and a
 * session of its own.
 */
struct process_leader {
  pid_t pid;
  bool is_command; /* it may leave processes behind */
};

struct process_leaders {
  struct process_leader *items;
  size_t count;
  size_t capacity;
  size_t commands;       /* how many of them are */
  uint64_t beside_ticks; /* when two commands were there last; 0: never */
};

void process_leaders_add(struct process_leaders *self, pid_t pid, bool is_command);
void process_leaders_remove(struct process_leaders *self, pid_t pid);
void process_leaders_release(struct process_leaders *self);

struct process_tree {
  const char *tag; /* value of PROCESS_TREE_TAG; NULL: every descendant of the agent belongs */
  pid_t leader;    /* the command itself, also leader of its process group; 0 when tag is NULL */
  uint64_t since_ticks; /* from process_tree_now, taken before the command was started */
  const struct process_leaders *leaders; /* with a tag; NULL: nothing runs beside it */
  const char *dead_agent; /* without a tag: nothing but what the agent of this tag has left */
  pid_t except;           /* without a tag: this process does not belong; 0: there is none */
  /* Without a tag: what dead agents of this job left belongs, too. NULL: it does not. */
  const char *job;
  const char *step_id; /* nothing else, and of this step only; NULL: of all */
};

/* The job as its tags have it. */
void process_tree_job(const char *job_id, char job[PROCESS_TREE_JOB_SIZE]);

/* Whether /proc can be read, and is this pid namespace's: in any other one the numbers mean other
   processes. Without it only the leader's process group is known, and, to the first process of a
   container, all processes. */
bool process_tree_is_known(void);

/* The clock of process start times: ticks since boot. */
uint64_t process_tree_now(void);

/*
 * Sends the signal (0: none) once to every living member; a zombie is not living. SIGTERM is
 * followed by SIGCONT: a stopped process cannot obey. Returns their number; without /proc 1 or 0.
 */
size_t process_tree_signal(const struct process_tree *self, int signal);

/* Whether another command runs beside: what ends then may be of that one. */
bool process_tree_is_beside(const struct process_tree *self);

/* Whether a process of this session may belong: false when the session is certainly older than the
   step. */
bool process_tree_may_hold(const struct process_tree *self, pid_t session);

/*
 * Where a process comes from, by its ancestors. Of one that has ended and was reaped nothing is
 * known. Without /proc, the agent's parent, process 1 and those of its session are others.
 */
enum process_origin { PROCESS_OF_STEP, PROCESS_OTHER, PROCESS_GONE };
enum process_origin process_tree_origin(pid_t pid);

/*
 * Kills the agent's newest child, as long as it belongs, over and over for this time. For a process
 * that outruns the scan: it forks, exits, and goes on in its child, each time in a new session.
 */
void process_tree_chase(const struct process_tree *self, int milliseconds);

/*
 * Names a process other than this one that has the pipe of this descriptor open, like
 * "pid 42 (sleep)". Returns the number of such processes; `name` is of the first, or "".
 */
size_t process_tree_pipe_holder(int fd, char *name, size_t size);

#endif
