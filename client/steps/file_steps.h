#pragma once

#include "base/buffer.h"
#include "client/steps/exchange.h"

/*
 * Runs steps of the file kinds, for their answer rather than for their events. The commands that
 * read, write, list and search files use it. It owns an exchange (exchange.h).
 *
 *   file_steps_begin(&steps, program)
 *     file_steps_new(&steps, "readFile"); step_text_string(&steps.json, "path", path);
 *     code = file_steps_do(&steps);                    0: steps.answer.content
 *     file_steps_complain(&steps);
 *   code = file_steps_end(&steps, code);
 */
struct file_answer {
  int code; /* the exit code */
  /* The result's outputContent: as text, with a NUL, and as JSON. NULL if there is none. */
  char *content, *raw;
  size_t length;
  bool has_result; /* false: another client took the result */
  char *message;   /* the error; NULL if it was shown already */
};

struct file_steps {
  struct program *program;
  struct job_agent agent;
  struct exchange exchange;
  char id[STEP_ID_SIZE];
  struct buffer json;        /* the next step */
  struct file_answer answer; /* to the last step, until the next one is begun */
  struct buffer notes;       /* what the last step wrote to stderr */
  bool is_lost;              /* no step is answered anymore, or the user does not want to wait */
  bool lacks[2];             /* properties that the sandbox has no program for: transfer_keep */
  bool has_wrong_mode;       /* a program could not set the mode of a file */
};

/* Returns 0, or the exit code after an error message if no agent is alive. */
int file_steps_begin(struct file_steps *self, struct program *program);

/* Returns the exit code of the program: this one, or that of a signal. */
int file_steps_end(struct file_steps *self, int code);

bool file_steps_can(const struct file_steps *self, const char *feature);

/* Writes an error message if the agent lacks the feature, and returns whether it has it. */
bool file_steps_require(struct file_steps *self, const char *feature);

/* Begins self->json. The caller adds fields with step_text_…, and does not end it. */
void file_steps_new(struct file_steps *self, const char *kind);

/* Adds a path or another text. Returns false, after an error message, if it is not UTF-8. */
bool file_steps_add(struct file_steps *self, const char *name, const char *text);

/* Runs the step. Returns the code of the answer. */
int file_steps_do(struct file_steps *self);

/* Shows the answer's error message, if it has failed. */
void file_steps_complain(struct file_steps *self);

/* Shows what the last step wrote to stderr. */
void file_steps_show_notes(struct file_steps *self);

/* Writes "sandbox: TEXT" to standard error, on a terminal without control characters. */
void file_steps_error(struct file_steps *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
