#include "agent/kinds/standby.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/exit_code.h"
#include "agent/kinds/kind.h"
#include "agent/kinds/kinds.h"
#include "agent/process/oom_score.h"
#include "agent/process/process_tree.h"
#include "base/memory.h"

/* What the child needs of the agent's environment: grep reads git's files. */
static const char *const inherited[] = {"HOME=", "XDG_CONFIG_HOME="};
#define INHERITED (sizeof inherited / sizeof *inherited)

/* What the child is executed with. */
struct launch_texts {
  char *argv[3];
  char *envp[INHERITED + 2];
  char program[64];
  char tag[160]; /* a variable, which makes it known as the agent's child */
};

void standby_init(struct standby *self, const struct process_context *context,
                  const char *agent_tag, const char *program, char *const *environment) {
  *self = (struct standby){
      .context = context, .agent_tag = agent_tag, .program = program, .environment = environment};
}

/* Adds to `envp` what is there of it, once each. */
static void inherit(const struct standby *self, char **envp) {
  for (size_t i = 0; i < INHERITED; i++) {
    char *const *entry = self->environment;
    while (entry != NULL && *entry != NULL &&
           strncmp(*entry, inherited[i], strlen(inherited[i])) != 0)
      entry++;
    if (entry != NULL && *entry != NULL)
      *envp++ = *entry;
  }
}

static void drop_child(struct standby *self) {
  if (self->child == NULL)
    return;
  self->dropped = process_pid(self->child);
  process_free(self->child);
  self->child = NULL;
}

void standby_release(struct standby *self) {
  drop_child(self);
  self->program = NULL;
}

void standby_make(struct standby *self) {
  if (self->child != NULL || self->program == NULL)
    return;
  struct launch_texts *texts = memory_allocate(sizeof *texts);
  *texts = (struct launch_texts){.argv = {texts->program, STANDBY_ARGUMENT}, .envp = {texts->tag}};
  (void)snprintf(texts->program, sizeof texts->program, "%s", self->program);
  (void)snprintf(texts->tag, sizeof texts->tag, PROCESS_TREE_TAG "=%s-standby%lu", self->agent_tag,
                 ++self->made);
  inherit(self, texts->envp + 1);
  const struct process_spec spec = {.argv = texts->argv,
                                    .envp = texts->envp,
                                    .memory = texts,
                                    .takes_input = true,
                                    .tag = texts->tag + sizeof PROCESS_TREE_TAG};
  struct error error; /* the fork in its place will say what is wrong */
  self->child = process_prepare(self->context, &spec, NULL, NULL, &error);
  if (self->child == NULL)
    self->program = NULL;
}

struct process *standby_take(struct standby *self, const struct step *step, const char *payload,
                             size_t length, const struct process_handler *handler, void *owner) {
  struct process *child = self->child;
  if (child == NULL || length > PROCESS_INPUT_MAX)
    return NULL;
  if (!process_give(child, payload, length, step->timeout_seconds, handler, owner)) {
    drop_child(self);
    return NULL;
  }
  self->child = NULL;
  return child;
}

bool standby_reaped(struct standby *self, pid_t pid, int status) {
  if (pid == self->dropped) {
    self->dropped = 0;
    return true;
  }
  if (self->child == NULL || process_pid(self->child) != pid)
    return false;
  (void)process_reaped(self->child, pid, status);
  drop_child(self);
  self->dropped = 0;
  if (WIFEXITED(status))
    self->program = NULL; /* nobody has killed it: it cannot be executed here */
  return true;
}

int standby_main(void) {
  char payload[PROCESS_INPUT_MAX];
  struct step step;
  struct error error;
  oom_score_raise_own();
  (void)prctl(PR_SET_DUMPABLE, 0); /* no step is to change what it will read for another one */
  (void)prctl(PR_SET_NAME, "agent-standby");
  (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  ssize_t length = read(STDIN_FILENO, payload, sizeof payload);
  if (length <= 0)
    return 0; /* the agent does not need it */
  if (step_parse(&step, kinds, payload, (size_t)length, &error) != 0 || !step_is_work(&step) ||
      kind_of(&step)->work == NULL) {
    (void)fprintf(stderr, "agent: %s is for the agent itself\n", STANDBY_ARGUMENT);
    return AGENT_EXIT_USAGE;
  }
  _exit(kind_work(&step)); /* as a fork does: what it holds ends with it */
}
