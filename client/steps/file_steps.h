#ifndef CLIENT_STEPS_FILE_STEPS_H
#define CLIENT_STEPS_FILE_STEPS_H

#include "base/buffer.h"
#include "client/steps/exchange.h"

/*
 * Steps whose answer is wanted, and not their events: the file kinds.
 *
 *   if ((code = file_steps_begin(&steps, program)) == 0) {
 *     file_steps_new(&steps, "readFile");
 *     step_text_string(&steps.json, "path", path);
 *     code = file_steps_do(&steps, &answer);          0: answer.content
 *     if (code != 0)
 *       file_steps_complain(&steps, &answer);
 *     file_answer_release(&answer);
 *     code = file_steps_end(&steps, code);
 *   }
 */
struct file_steps {
  struct program *program;
  struct job_agent agent;
  struct exchange exchange;
  char id[STEP_ID_SIZE];
  struct buffer json;
  struct buffer notes; /* what the step wrote to stderr */
  bool is_lost;        /* no step is answered any more, or people do not want to wait */
};

struct file_answer {
  int code; /* as an exit code; 0: done */
  /* outputContent as text, with a NUL behind it, and as it is in the result; NULL: there is none,
     which without `is_known` is since somebody else took the result. */
  char *content, *raw;
  size_t length;
  bool is_known;
  char *message; /* why not; NULL: it was said already */
};

/* Returns 0; or the exit code, when there is no agent: that was said. */
int file_steps_begin(struct file_steps *self, struct program *program);

/* The exit code for all: this one, unless a signal has ended it. */
int file_steps_end(struct file_steps *self, int code);

/* Whether the agent has a feature; when not it is said that one is needed. */
bool file_steps_need(struct file_steps *self, const char *feature);
bool file_steps_can(const struct file_steps *self, const char *feature);

/* Begins self->json, to be completed by step_text_…, but not ended. */
void file_steps_new(struct file_steps *self, const char *kind);

/* A path, or another text; false, which is said, where it cannot be one of a step: it is no
   UTF-8. */
bool file_steps_add(struct file_steps *self, const char *name, const char *text);

/* Returns answer->code. The answer is to be released in any case. */
int file_steps_do(struct file_steps *self, struct file_answer *answer);
void file_answer_release(struct file_answer *self);

/* Says why it failed. */
void file_steps_complain(struct file_steps *self, const struct file_answer *answer);

/* What the step has said beside its answer, on standard error. */
void file_steps_tell(struct file_steps *self);

/* "sandbox: TEXT" of what others have written, on standard error: control characters reach no
   terminal. */
void file_steps_error(struct file_steps *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
