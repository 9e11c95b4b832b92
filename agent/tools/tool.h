#ifndef AGENT_TOOLS_TOOL_H
#define AGENT_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "agent/engine/execution_result.h"
#include "agent/engine/frontend.h"
#include "agent/kinds/kind.h"
#include "agent/tools/argument.h"
#include "base/buffer.h"

/*
 * The tools that models call: the kinds of steps under the names, arguments and texts that agents
 * of the field know (execute_command, read_file, ...). A call is one step.
 *
 *   tool = tool_find("read_file")
 *   call = tool_call_new(tool, arguments, ...)       NULL: the text says what is wrong with them
 *   tool_call_request(call, &request)                engine_submit takes it over
 *     ...                                            in the frontend's result():
 *   tool_call_answer(call, end, &text)              returns whether it has failed
 *   tool_call_free(call)
 */
struct tool_call;

struct tool {
  char name[16], title[16];
  const char *description;
  const char *hints;       /* for clients, as members of a JSON object: "readOnlyHint":true,… */
  const struct kind *kind; /* of its steps; the rest is the tool's own */
  const char *fields;      /* of theirs that no argument sets, as a JSON object; or NULL */
  bool for_model;          /* see struct step */
  struct argument_table arguments;
  /* Adds the text of a run that has succeeded. NULL of commands. */
  void (*answer)(const struct tool_call *call, const struct execution_result *end,
                 struct buffer *text);
};

/* In one fixed order. NULL after the last one. */
const struct tool *tool_at(size_t index);
const struct tool *tool_find(const char *name);

/* Whether its runs are commands, whose streams and exit code a frontend may show apart, as an
   object of answer.h. */
bool tool_is_command(const struct tool *self);

/* What the calls of one frontend share. Nothing is owned. */
struct tool_settings {
  struct argument_limits limits;
  const char *directory; /* absolute: what paths and `workdir` are relative to */
  const char *shell;     /* "bash" or "sh"; NULL: there is none */
  struct masker *masker; /* of what answers repeat; NULL: none */
};

/* Adds the JSON Schema of the arguments; `timeout` has the maximum and the default of the
   settings. */
void tool_add_input_schema(const struct tool *self, const struct tool_settings *settings,
                           struct buffer *out);

/* What a text for the model begins with when the tool has not done what it was called for. The text
   of a command that was executed never counts as one. */
#define TOOL_ERROR "Error: "

/* `arguments`: an object of json_tree_parse, or NULL for none; texts are moved out of it into the
   step. null counts as absent. `step_id`: unique among the runs. Returns NULL, with the text for
   the model (TOOL_ERROR and the reason) added to `text`, when the arguments are refused. Otherwise
   nothing is added. */
struct tool_call *tool_call_new(const struct tool *tool, cJSON *arguments,
                                const struct tool_settings *settings, const char *step_id,
                                struct buffer *text);
void tool_call_free(struct tool_call *self);

/* Fills in the step, once. The call must outlive the run; the user data is the frontend's. */
void tool_call_request(struct tool_call *self, struct request *request);

/* The trace of which it is a part, for the command and the log; NULL: none. Before the step is
   taken. */
void tool_call_set_trace(struct tool_call *self, const char *traceparent);

/* The file that it changes: a lexical path (agent/files/access/path.h), so that two names of one
   file may differ. NULL if it changes none, or is a command. */
const char *tool_call_changes(const struct tool_call *self);

/* Its time limit, in seconds. */
unsigned tool_call_timeout(const struct tool_call *self);

/* See tool_is_command. */
bool tool_call_is_command(const struct tool_call *self);

/* An image that was read, in the end that it was made from. */
struct tool_image {
  const char *type; /* such as image/png, without a NUL */
  size_t type_length;
  const char *base64;
  size_t length;
};

/* Whether that is what the call has for the model; the text only says so then, for frontends that
   cannot show it. */
bool tool_call_image(const struct tool_call *self, const struct execution_result *end,
                     struct tool_image *image);

/* Adds the text for the model, which is at most some 105,000 bytes long. Returns true when the tool
   failed. */
bool tool_call_answer(const struct tool_call *self, const struct execution_result *end,
                      struct buffer *text);

#endif
