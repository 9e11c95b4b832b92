/*
 * A search reads the same files as ripgrep, `rg`, with the arguments of a server that uses it:
 *
 *   rg --max-filesize 1000000 [--hidden --no-ignore] --files-with-matches [--glob G]
 *      one --glob for each directory that is always skipped, one for the reference directory
 *      -e needle PATH
 *
 * Both search random trees with ignore files in all relevant places, from random roots and with
 * random globs. SEARCH_CASES sets the number of searches, and SEARCH_SEED the first seed. A failure
 * prints the seed of its tree.
 *
 * This program differs from ripgrep on purpose in some patterns: a byte order mark, lines that are
 * not UTF-8, "!" and "}" alone, nested braces, negated brackets, and escapes in brackets. They do
 * not occur here; tests/unit/test_ignore_rules.c and test_glob.c test them. The global ignore file
 * is anchored at the repository, as in git, and not at "/" (tests/unit/test_search_ignore.c), so
 * here it has only names. The other differences have names, which the code below refers to:
 *
 *   RELATIVE   A relative path means the same as the absolute one. rg 13 compares the rules above a
 *              relative path with a path that contains it twice. So rg always gets absolute paths.
 *   LINK       If the root is a link, the rules above its target apply. So rg gets the target,
 *              without the reference directory, which depends on the text of the path.
 *   EXCLUDED   A root inside a skipped directory is searched. So rg gets the skipped directories by
 *              their places below the root.
 *   ANCHOR     A glob without "!" is also matched against the path from the root. So rg is asked
 *              twice, and both answers count. A file in a directory that is hidden in one of them
 *              must be in an answer without ignore files.
 *   NAMED      A glob without "!" that names a directory searches it, although rg skips it. So a
 *              file that only this program finds may be in a named directory, if rg finds it
 *              without ignore files and skipped directories.
 *   SELF       If the search begins above the repository, a negated glob does not exclude the
 *              repository. rg uses "" as its path, which "**" matches. So this does not occur here.
 *   LATE_NUL   A NUL anywhere makes a file binary. rg finds matches that are at least 64 KiB
 *              before the first NUL. So the test removes these files from the answer of rg.
 */
#include <limits.h>
#include <spawn.h>

#include <cjson/cJSON.h>

#include "agent/files/grep/search.h"
#include "agent/files/tree/walk.h"
#include "base/buffer.h"
#include "tests/support/tree.h"
#include "tests/test.h"

#define RIPGREP "/usr/bin/rg"
#define CASES 1000
#define SEARCHES 5 /* of one tree */
#define PATHS_MAX 200
#define LATE_NUL "late-nul"

extern char **environ;

/* --- random --- */

static uint64_t random_state;

static unsigned below(unsigned bound) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)((random_state >> 16) % bound);
}

static bool chance(unsigned percent) {
  return below(100) < percent;
}

/* Spreads seeds that follow each other. */
static void start_with(uint64_t seed) {
  random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
  for (int i = 0; i < 4; i++)
    (void)below(2);
}

/* --- a text --- */

struct text {
  char bytes[16384];
};

__attribute__((format(printf, 2, 3))) static void put(struct text *to, const char *format, ...) {
  size_t length = strlen(to->bytes);
  va_list arguments;
  va_start(arguments, format);
  int added = vsnprintf(to->bytes + length, sizeof to->bytes - length, format, arguments);
  va_end(arguments);
  assert_true(added >= 0 && (size_t)added < sizeof to->bytes - length);
}

/* --- a tree --- */

struct place {
  char path[256]; /* from the scene */
  bool is_directory;
};

struct scene {
  struct tree *tree;
  char base[64]; /* of the scene: links resolved */
  struct place places[PATHS_MAX];
  size_t place_count;
  unsigned gits;
  unsigned repository_count;
};

static const char *const names[] = {
    "a",     "b",     "foo",   "foo.c",  "bar.o",        ".env",  ".github", ".x",
    "a b",   "bang!", "#x",    "B",      "FOO",          "build", "bin",     "vendor",
    "[x]",   "x*y",   "a\\b",  "trail ", "out",          "log",   "x.log",   "deep",
    "lib.a", "c++",   "-dash", "!bang",  "a,b",          "{x}",   "obj",     "foo.c.o",
    "ab",    "abc",   "aab",   "Foo.C",  "node_modules", "é",     "café.c",  "aéb"};

static const char *random_name(void) {
  return names[below(sizeof names / sizeof *names)];
}

static const char *full(const struct scene *self, const char *path) {
  static char paths[8][PATH_MAX];
  static unsigned next;
  char *to = paths[next++ % 8];
  assert_true(snprintf(to, PATH_MAX, "%s%s%s", self->base, *path == '\0' ? "" : "/", path) <
              PATH_MAX);
  return to;
}

static void write_text(const struct scene *self, const char *path, const char *text) {
  FILE *file = fopen(full(self, path), "wb");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* Notes a path. Returns false if the name exists. */
static bool note(struct scene *self, const char *path, bool is_directory) {
  struct stat file;
  if (self->place_count == PATHS_MAX || lstat(full(self, path), &file) == 0)
    return false;
  struct place *place = &self->places[self->place_count++];
  (void)snprintf(place->path, sizeof place->path, "%s", path);
  place->is_directory = is_directory;
  return true;
}

static bool add_directory(struct scene *self, const char *path) {
  if (!note(self, path, true))
    return false;
  assert_int_equal(mkdir(full(self, path), 0700), 0);
  return true;
}

static void add_large(const struct scene *self, const char *path, size_t length) {
  FILE *file = fopen(full(self, path), "wb");
  assert_non_null(file);
  assert_true(fputs("needle\n", file) >= 0);
  for (size_t i = 7; i < length; i++)
    assert_true(fputc('x', file) == 'x');
  assert_int_equal(fclose(file), 0);
}

static void add_binary(const struct scene *self, const char *path, size_t before) {
  add_large(self, path, before);
  FILE *file = fopen(full(self, path), "ab");
  assert_non_null(file);
  assert_true(fputc('\0', file) == '\0');
  assert_int_equal(fclose(file), 0);
}

static void add_file(struct scene *self, const char *directory) {
  char path[256];
  const char *name = random_name();
  unsigned what = below(300);
  if (what == 0)
    name = LATE_NUL;
  (void)snprintf(path, sizeof path, "%s/%s", directory, name);
  if (!note(self, path, false))
    return;
  if (what == 0)
    add_binary(self, path, 300000);
  else if (what == 1)
    add_binary(self, path, 8);
  else if (what == 2)
    add_large(self, path, 1000000);
  else if (what == 3)
    add_large(self, path, 1000001);
  else if (what < 12)
    assert_int_equal(symlink(what < 8 ? "." : "foo", full(self, path)), 0);
  else
    write_text(self, path, "needle\n");
}

static const char *random_directory(const struct scene *self) {
  for (;;) {
    const struct place *place = &self->places[below((unsigned)self->place_count)];
    if (place->is_directory)
      return place->path;
  }
}

/* --- patterns --- */

static void add_literal(struct text *to, char character) {
  bool escapes = strchr("*?[]{}\\,", character) != NULL || chance(3);
  put(to, "%s%c", escapes ? "\\" : "", character);
}

/* A "/" in brackets would anchor the pattern. */
static void add_class(struct text *to, char character) {
  char other = chance(50) ? "z0_"[below(3)] : "aboxF"[below(5)];
  if (character == ']' || character == '\\')
    add_literal(to, character);
  else if (character >= 'a' && character <= 'y')
    put(to, "[%c-%c%c]", character, character + 1, other);
  else if (strchr("-!^", character) != NULL)
    put(to, "[%c%c]", other, character);
  else
    put(to, "[%c%c]", character, other);
}

static bool continues(char byte) {
  return ((unsigned char)byte & 0xC0) == 0x80;
}

/* A character of two bytes, which counts as two for wildcards. */
static void add_two_bytes(struct text *to, const char *character) {
  if (chance(30))
    put(to, "??");
  else if (chance(30))
    put(to, "[%.2sx][a-%.2s]", character, character);
  else
    put(to, "%.2s", character);
}

static void add_braces(struct text *to, const char *name) {
  put(to, "{%s,", chance(50) ? "foo" : "*.c");
  for (; *name != '\0' && *name != '/'; name++)
    put(to, "%s%c", strchr("*?[]{}\\,", *name) != NULL ? "\\" : "", *name);
  put(to, "}");
}

/* Adds a component that usually matches `name`. */
static void add_component(struct text *to, const char *name) {
  size_t length = strlen(name);
  unsigned form = below(14);
  if (form == 0) {
    put(to, "*");
  } else if (form == 1) {
    put(to, "%s", chance(70) ? "**" : "***");
  } else if (form == 2) {
    add_braces(to, name);
  } else {
    size_t star = form < 6 ? below((unsigned)length + 1) : SIZE_MAX;
    for (size_t i = 0; i < length; i++) {
      if (i == star) {
        put(to, "*");
        i += below((unsigned)(length - i));
        while (continues(name[i]))
          i--;
      }
      if ((unsigned char)name[i] >= 0x80)
        add_two_bytes(to, name + i++);
      else if (chance(6))
        put(to, "?");
      else if (chance(8))
        add_class(to, name[i]);
      else
        add_literal(to, name[i]);
    }
    if (star == length)
      put(to, "*");
  }
}

/* Adds the path of a place below `directory`, the end of that path, its last name, or sometimes
   another name. */
static void add_pattern(const struct scene *self, const char *directory, struct text *to) {
  char path[256] = "";
  size_t prefix = strlen(directory);
  for (int tries = 0; tries < 8 && path[0] == '\0'; tries++) {
    const struct place *place = &self->places[below((unsigned)self->place_count)];
    if (strncmp(place->path, directory, prefix) == 0 && place->path[prefix] == '/')
      (void)snprintf(path, sizeof path, "%s", place->path + prefix + 1);
  }
  if (path[0] == '\0' || chance(15))
    (void)snprintf(path, sizeof path, "%s", random_name());
  char *from = path;
  while (chance(60) && strchr(from, '/') != NULL)
    from = strchr(from, '/') + 1;
  char *rest = from;
  for (char *name; (name = strsep(&rest, "/")) != NULL;) {
    if (chance(12))
      put(to, "**/");
    add_component(to, name);
    if (rest != NULL && chance(15))
      break;
    if (rest != NULL)
      put(to, "/");
  }
  if (chance(10))
    put(to, "/**");
}

/* Escapes a first character that would have a meaning there. */
static void escape_front(struct text *to) {
  if (to->bytes[0] != '!' && to->bytes[0] != '#')
    return;
  memmove(to->bytes + 1, to->bytes, strlen(to->bytes) + 1);
  to->bytes[0] = '\\';
}

static void escape_end(struct text *to) {
  size_t length = strlen(to->bytes);
  if (length > 0 && to->bytes[length - 1] == ' ' && (length < 2 || to->bytes[length - 2] != '\\'))
    memcpy(to->bytes + length - 1, "\\ ", 3);
}

/* --- ignore files --- */

static const char *const odd_lines[] = {
    "",        "# foo", "#",      "   ",      "\t",       "/",     "[",      "[a",
    "{a,b",    "a\\",   "[z-a]",  "//foo",    "./foo",    "foo//", "!!bang", "a//b",
    "**/",     "!**/",  "[]]",    "**foo",    "foo**",    "*/",    "!*/",    "/*",
    "!/*",     "/**",   "!.*",    "a/**/",    "**/**",    "!.*/",  "*.c",    "!*.c",
    "\\!bang", "\\#x",  "foo\\/", "trail\\ ", "trail\\  "};

static void add_line(const struct scene *self, const char *directory, struct text *to,
                     const char *end) {
  struct text pattern = {""};
  add_pattern(self, directory, &pattern);
  bool anchored = chance(20), negated = chance(25), only_directories = chance(20);
  if (!anchored && !negated)
    escape_front(&pattern);
  if (!only_directories)
    escape_end(&pattern);
  put(to, "%s%s%s%s%s%s", negated ? "!" : "", anchored ? "/" : "", pattern.bytes,
      only_directories ? "/" : "", chance(10) ? "  " : "", end);
}

/* The patterns are anchored at `directory`. */
static void add_ignore_file(struct scene *self, const char *directory, const char *path) {
  struct stat file;
  if (lstat(full(self, path), &file) == 0)
    return;
  struct text text = {""};
  const char *end = chance(10) ? "\r\n" : "\n";
  for (unsigned lines = 1 + below(5); lines > 0; lines--) {
    if (chance(15))
      put(&text, "%s%s", odd_lines[below(sizeof odd_lines / sizeof *odd_lines)], end);
    else
      add_line(self, directory, &text, lines == 1 && chance(30) ? "" : end);
  }
  write_text(self, path, text.bytes);
}

static void add_global(const struct scene *self) {
  static const char *const names_only[] = {"foo*",  "*.c",    "a",     "b",   "build",
                                           "*.log", "[a-f]*", "deep/", "out/"};
  char text[PATH_MAX];
  const char *path = "global";
  switch (below(6)) {
  case 0:
    (void)snprintf(text, sizeof text, "[user]\n\tname = x\n[core]\n\texcludesFile = %s\n",
                   full(self, "global"));
    write_text(self, "home/.gitconfig", text);
    break;
  case 1:
    write_text(self, "home/.gitconfig", "[core]\nEXCLUDESFILE=~/own\n");
    path = "home/own";
    break;
  case 2:
    (void)snprintf(text, sizeof text, "[core]\n  excludesfile = %s\n", full(self, "global"));
    write_text(self, "home/.config/git/config", text);
    break;
  case 3:
    path = "home/.config/git/ignore";
    break;
  default:
    return;
  }
  struct text lines = {""};
  for (unsigned count = 1 + below(4); count > 0; count--)
    put(&lines, "%s%s\n", chance(25) ? "!" : "",
        names_only[below(sizeof names_only / sizeof *names_only)]);
  write_text(self, path, lines.bytes);
}

/* A repository: `.git` is a directory, the file of a worktree, or a link to a directory. */
static void add_repository(struct scene *self, const char *directory) {
  char path[320];
  char other[320];
  struct stat file;
  (void)snprintf(path, sizeof path, "%s/.git", directory);
  if (lstat(full(self, path), &file) == 0 || self->repository_count == 8)
    return;
  self->repository_count++;
  (void)snprintf(other, sizeof other, "gits/%u", self->gits++);
  const char *is = chance(70) ? path : other;
  assert_int_equal(mkdir(full(self, is), 0700), 0);
  if (is == other && chance(30)) {
    assert_int_equal(symlink(full(self, other), full(self, path)), 0);
  } else if (is == other) {
    char text[PATH_MAX + 16];
    char worktree[400];
    (void)snprintf(worktree, sizeof worktree, "%s/worktree", other);
    assert_int_equal(mkdir(full(self, worktree), 0700), 0);
    (void)snprintf(text, sizeof text, "gitdir: %s\n", full(self, worktree));
    write_text(self, path, text);
    (void)snprintf(worktree, sizeof worktree, "%s/worktree/commondir", other);
    (void)snprintf(text, sizeof text, "%s\n", chance(50) ? ".." : full(self, other));
    write_text(self, worktree, text);
  }
  if (chance(50)) {
    char info[400];
    (void)snprintf(info, sizeof info, "%s/info", is);
    assert_int_equal(mkdir(full(self, info), 0700), 0);
    (void)snprintf(info, sizeof info, "%s/info/exclude", is);
    add_ignore_file(self, directory, info);
  }
}

static void decorate(struct scene *self, const char *directory) {
  static const struct {
    const char *name;
    unsigned percent;
  } files[] = {{".gitignore", 45}, {".ignore", 15}, {".rgignore", 12}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[320];
    (void)snprintf(path, sizeof path, "%s%s%s", directory, *directory == '\0' ? "" : "/",
                   files[i].name);
    if (chance(files[i].percent))
      add_ignore_file(self, directory, path);
  }
}

static void make_scene(struct scene *self, struct tree *tree, uint64_t seed) {
  memset(self, 0, sizeof *self);
  self->tree = tree;
  start_with(seed);
  tree_make_directory(tree, "scene", 0700);
  assert_non_null(realpath(tree_path(tree, "scene"), self->base));
  for (const char *const *path =
           (const char *const[]){"home", "home/.config", "home/.config/git", "gits", NULL};
       *path != NULL; path++)
    assert_int_equal(mkdir(full(self, *path), 0700), 0);
  assert_true(add_directory(self, "outer"));
  assert_true(add_directory(self, "outer/work"));
  for (unsigned directories = 3 + below(7); directories > 0; directories--) {
    char path[256];
    const char *parent = chance(70) ? random_directory(self) : "outer/work";
    if (strlen(parent) < 60) {
      (void)snprintf(path, sizeof path, "%s/%s", parent, random_name());
      (void)add_directory(self, path);
    }
  }
  if (chance(15) && add_directory(self, "outer/work/.agentsmith") &&
      add_directory(self, "outer/work/.agentsmith/reference") && chance(50))
    (void)add_directory(self, "outer/work/.agentsmith/reference/a");
  size_t directories = self->place_count;
  for (size_t i = 0; i < directories; i++)
    if (self->places[i].is_directory)
      for (unsigned files = below(5); files > 0; files--)
        add_file(self, self->places[i].path);
  if (chance(75))
    add_repository(self, "outer/work");
  if (chance(40))
    for (size_t i = 0; i < directories; i++)
      if (chance(15))
        add_repository(self, self->places[i].path);
  decorate(self, "");
  for (size_t i = 0; i < directories; i++)
    decorate(self, self->places[i].path);
  add_global(self);
}

/* --- one search --- */

struct question {
  char root[256]; /* from the scene */
  char link[256]; /* LINK: by which this program gets there; or "" */
  bool is_relative;
  bool has_glob;
  struct text glob;
  bool search_hidden;
  bool excludes_nothing; /* of rg: NAMED */
};

struct list {
  char *names[PATHS_MAX * 2];
  size_t count;
};

static void list_add(struct list *self, const char *name, size_t length) {
  assert_true(self->count < sizeof self->names / sizeof *self->names);
  self->names[self->count++] = strndup(name, length);
}

static bool list_has(const struct list *self, const char *name) {
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->names[i], name) == 0)
      return true;
  return false;
}

static void list_release(struct list *self) {
  for (size_t i = 0; i < self->count; i++)
    free(self->names[i]);
  self->count = 0;
}

#define ARGUMENTS_MAX 64

struct arguments {
  char *words[ARGUMENTS_MAX];
  size_t count;
};

__attribute__((format(printf, 2, 3))) static void argue(struct arguments *to, const char *format,
                                                        ...) {
  va_list arguments;
  va_start(arguments, format);
  assert_true(to->count + 1 < ARGUMENTS_MAX);
  assert_true(vasprintf(&to->words[to->count++], format, arguments) >= 0);
  va_end(arguments);
  to->words[to->count] = NULL;
}

/* A path as a glob that matches it alone. */
static const char *as_glob(const char *path) {
  static char glob[1024];
  size_t length = 0;
  for (; *path != '\0'; path++) {
    if (strchr("*?[]{}\\,", *path) != NULL)
      glob[length++] = '\\';
    glob[length++] = *path;
  }
  glob[length] = '\0';
  return glob;
}

/* The path of `path` below `directory`; NULL where it is not below it, "" where it is itself. */
static const char *below_directory(const char *path, const char *directory) {
  size_t length = strlen(directory);
  if (strncmp(path, directory, length) != 0 || (path[length] != '\0' && path[length] != '/'))
    return NULL;
  return path + length + (path[length] == '/');
}

static bool is_in_excluded(const char *path) {
  char copy[256];
  (void)snprintf(copy, sizeof copy, "%s", path);
  char *rest = copy;
  for (char *name; (name = strsep(&rest, "/")) != NULL;)
    if (walk_is_excluded(name))
      return true;
  return false;
}

/* If rg cannot parse a line of an ignore file, it exits with 2, but its answer is complete. */
static void check_errors(const struct scene *self) {
  FILE *file = fopen(full(self, "errors"), "rb");
  char line[4096];
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL)
    if (strstr(line, ": error parsing glob '") == NULL)
      fail_msg("rg: %s", line);
  (void)fclose(file);
}

static void run(const struct scene *self, const struct arguments *arguments, const char *directory,
                struct buffer *output) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  posix_spawn_file_actions_t actions;
  assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
  assert_int_equal(posix_spawn_file_actions_adddup2(&actions, ends[1], 1), 0);
  assert_int_equal(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0), 0);
  assert_int_equal(posix_spawn_file_actions_addopen(&actions, 2, full(self, "errors"),
                                                    O_WRONLY | O_CREAT | O_TRUNC, 0600),
                   0);
  assert_int_equal(posix_spawn_file_actions_addclose(&actions, ends[0]), 0);
  assert_int_equal(posix_spawn_file_actions_addclose(&actions, ends[1]), 0);
  pid_t pid;
  assert_int_equal(chdir(directory), 0);
  assert_int_equal(posix_spawn(&pid, RIPGREP, &actions, NULL, arguments->words, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  ssize_t n;
  while ((n = read(ends[0], buffer_space(output, 4096), 4096)) > 0)
    output->length += (size_t)n;
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 2);
  check_errors(self);
}

/* The directories that this program always leaves out. */
static void argue_excludes(struct arguments *arguments, const struct scene *self,
                           const struct question *question, const char *directory) {
  const char *root = below_directory(question->root, directory);
  /* EXCLUDED: a root that is not below the directory is given as a glob with its whole path */
  char anchor[PATH_MAX] = "";
  if (root == NULL)
    (void)snprintf(anchor, sizeof anchor, "**%s", as_glob(full(self, question->root)));
  else if (root[0] != '\0')
    (void)snprintf(anchor, sizeof anchor, "/%s", as_glob(root));
  bool is_in = is_in_excluded(question->root);
  for (size_t i = 0; walk_default_excludes[i] != NULL; i++) {
    argue(arguments, "--glob");
    if (is_in)
      argue(arguments, "!%s/**/%s/**", anchor, walk_default_excludes[i]);
    else
      argue(arguments, "!**/%s/**", walk_default_excludes[i]);
  }
  static const char reference[] = "outer/work/.agentsmith/reference";
  if (question->link[0] == '\0' && below_directory(question->root, reference) == NULL &&
      below_directory(reference, directory) != NULL) {
    argue(arguments, "--glob");
    argue(arguments, "!/%s/**", below_directory(reference, directory));
  }
}

/* `directory` is where a glob is anchored, from the scene. */
static void ask_ripgrep(const struct scene *self, const struct question *question,
                        const char *directory, struct list *found) {
  struct arguments arguments = {.count = 0};
  argue(&arguments, "rg");
  argue(&arguments, "-j1");
  argue(&arguments, "--max-filesize");
  argue(&arguments, "1000000");
  if (question->search_hidden) {
    argue(&arguments, "--hidden");
    argue(&arguments, "--no-ignore");
  }
  argue(&arguments, "--files-with-matches");
  if (question->has_glob)
    argue(&arguments, "--glob=%s", question->glob.bytes);
  if (!question->excludes_nothing)
    argue_excludes(&arguments, self, question, directory);
  argue(&arguments, "-e");
  argue(&arguments, "needle");
  argue(&arguments, "%s", full(self, question->root));
  struct buffer output = {0};
  run(self, &arguments, full(self, directory), &output);
  size_t prefix = strlen(full(self, question->root));
  for (size_t at = 0; at < output.length;) {
    const char *line = output.bytes + at;
    const char *end = memchr(line, '\n', output.length - at);
    assert_non_null(end);
    at += (size_t)(end + 1 - line);
    const char *path = line + prefix + 1 < end ? line + prefix + 1 : end;
    list_add(found, path, (size_t)(end - path));
  }
  buffer_release(&output);
  for (size_t i = 0; i < arguments.count; i++)
    free(arguments.words[i]);
}

static int ask_ours(const struct scene *self, const struct question *question, struct list *found,
                    struct error *error) {
  char path[PATH_MAX];
  const char *root = question->link[0] != '\0' ? question->link : question->root;
  const char *relative = below_directory(root, "outer/work");
  if (question->is_relative && relative != NULL)
    (void)snprintf(path, sizeof path, "%s", relative[0] == '\0' ? "." : relative);
  else
    (void)snprintf(path, sizeof path, "%s", full(self, root));
  assert_int_equal(chdir(full(self, "outer/work")), 0);
  const struct search search = {.path = path,
                                .repository = full(self, "outer/work"),
                                .pattern = "needle",
                                .glob = question->has_glob ? question->glob.bytes : NULL,
                                .head_limit = 1000,
                                .respects_ignores = !question->search_hidden,
                                .home = getenv("HOME"),
                                .config = getenv("XDG_CONFIG_HOME"),
                                .output = SEARCH_FILES};
  struct buffer content = {0};
  struct search_result result;
  int status = search_run(&search, &content, &result, error);
  cJSON *array = status == 0 ? cJSON_ParseWithLength(content.bytes, content.length) : NULL;
  const cJSON *entry;
  cJSON_ArrayForEach(entry, array) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(entry, "path"));
    struct stat file;
    bool is_named = stat(full(self, question->root), &file) == 0 && S_ISREG(file.st_mode);
    list_add(found, name, is_named ? 0 : strlen(name));
  }
  cJSON_Delete(array);
  buffer_release(&content);
  return status;
}

/* --- comparing --- */

static void show(const struct scene *self, uint64_t seed, const struct question *question,
                 const char *name, const char *who) {
  (void)system(formatted("cd %s && ls -AlR && find . -type f -size -8 -exec head -v -n 99 {} +",
                         self->base));
  fail_msg("SEARCH_SEED=%llu: root %s%s%s, glob %s, hidden %d: only %s finds %s",
           (unsigned long long)seed, question->root, question->link[0] != '\0' ? " by " : "",
           question->link, question->has_glob ? question->glob.bytes : "none",
           question->search_hidden, who, name);
}

/* ANCHOR */
static bool is_asked_twice(const struct scene *self, const struct question *question) {
  struct stat file;
  return question->has_glob && question->glob.bytes[0] != '!' &&
         strchr(question->glob.bytes, '/') != NULL && strcmp(question->root, "outer/work") != 0 &&
         stat(full(self, question->root), &file) == 0 && S_ISDIR(file.st_mode);
}

static void answer_by_ripgrep(const struct scene *self, const struct question *question,
                              struct list *found) {
  ask_ripgrep(self, question, "outer/work", found);
  if (is_asked_twice(self, question))
    ask_ripgrep(self, question, question->root, found);
}

/* ANCHOR: a directory that would be hidden may match in one way, and a file in it in the other. */
static bool is_of_both_ways(const struct scene *self, const struct question *question,
                            const char *name) {
  if (!is_asked_twice(self, question))
    return false;
  struct question all = *question;
  struct list found = {.count = 0};
  all.search_hidden = true;
  answer_by_ripgrep(self, &all, &found);
  bool is_found = list_has(&found, name);
  list_release(&found);
  return is_found;
}

/* NAMED: whether a component before the last one does not begin with a wildcard. */
static bool names_a_directory(const char *glob) {
  for (const char *slash; (slash = strchr(glob, '/')) != NULL && slash[1] != '\0'; glob = slash + 1)
    if (slash > glob && strchr("*?[", glob[0]) == NULL)
      return true;
  return false;
}

static bool is_in_named(const struct scene *self, const struct question *question,
                        const char *name) {
  if (!question->has_glob || question->glob.bytes[0] == '!' ||
      !names_a_directory(question->glob.bytes))
    return false;
  struct question all = *question;
  struct list found = {.count = 0};
  all.search_hidden = true;
  all.excludes_nothing = true;
  answer_by_ripgrep(self, &all, &found);
  bool is_found = list_has(&found, name);
  list_release(&found);
  return is_found;
}

static bool is_late_nul(const char *name) {
  const char *slash = strrchr(name, '/');
  return strcmp(slash == NULL ? name : slash + 1, LATE_NUL) == 0;
}

static void compare(const struct scene *self, uint64_t seed, const struct question *question,
                    const struct list *rg, const struct list *own) {
  for (size_t i = 0; i < rg->count; i++)
    if (!list_has(own, rg->names[i]) && !is_late_nul(rg->names[i]))
      show(self, seed, question, rg->names[i], "rg");
  for (size_t i = 0; i < own->count; i++)
    if (!list_has(rg, own->names[i]) && !is_of_both_ways(self, question, own->names[i]) &&
        !is_in_named(self, question, own->names[i]))
      show(self, seed, question, own->names[i], "this program");
}

/* --- questions --- */

static void choose_root(struct scene *self, struct question *question) {
  const char *root = "outer/work";
  if (chance(55))
    root = chance(10) ? "outer" : random_directory(self);
  if (chance(6)) {
    const struct place *place = &self->places[below((unsigned)self->place_count)];
    struct stat file;
    if (lstat(full(self, place->path), &file) == 0 && S_ISREG(file.st_mode) &&
        !is_late_nul(place->path))
      root = place->path;
  }
  (void)snprintf(question->root, sizeof question->root, "%s", root);
  question->is_relative = chance(40);
  if (chance(5)) {
    (void)snprintf(question->link, sizeof question->link, "gits/link");
    (void)unlink(full(self, "gits/link"));
    assert_int_equal(symlink(full(self, root), full(self, "gits/link")), 0);
    question->is_relative = false;
  }
}

static void choose_question(struct scene *self, struct question *question) {
  memset(question, 0, sizeof *question);
  question->search_hidden = chance(20);
  choose_root(self, question);
  if (question->link[0] != '\0' || chance(50))
    return;
  question->has_glob = true;
  const char *repository = below_directory("outer/work", question->root);
  bool negated = chance(35) && (repository == NULL || repository[0] == '\0'); /* SELF */
  struct text pattern = {""};
  add_pattern(self, chance(70) ? "outer/work" : question->root, &pattern);
  escape_front(&pattern);
  escape_end(&pattern);
  put(&question->glob, "%s%s%s%s", negated ? "!" : "", chance(15) ? "/" : "", pattern.bytes,
      chance(8) ? "/" : "");
}

static void remove_scene(const struct scene *self) {
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(system(formatted("rm -rf %s", self->base)), 0);
}

static void search_tree(struct tree *tree, uint64_t seed) {
  static struct scene scene;
  static struct question questions[SEARCHES];
  static struct list found[SEARCHES];
  make_scene(&scene, tree, seed);
  assert_int_equal(setenv("HOME", full(&scene, "home"), 1), 0);
  if (chance(50))
    assert_int_equal(setenv("XDG_CONFIG_HOME", full(&scene, "home/.config"), 1), 0);
  else
    assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
  for (size_t i = 0; i < SEARCHES; i++) {
    choose_question(&scene, &questions[i]);
    answer_by_ripgrep(&scene, &questions[i], &found[i]);
  }
  for (size_t i = 0; i < SEARCHES; i++) {
    struct list own = {.count = 0};
    struct error error;
    if (questions[i].link[0] != '\0') {
      (void)unlink(full(&scene, "gits/link"));
      assert_int_equal(symlink(full(&scene, questions[i].root), full(&scene, "gits/link")), 0);
    }
    if (ask_ours(&scene, &questions[i], &own, &error) != 0)
      show(&scene, seed, &questions[i], error.text, "an error");
    compare(&scene, seed, &questions[i], &found[i], &own);
    list_release(&own);
    list_release(&found[i]);
  }
  remove_scene(&scene);
}

static uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

TREE_TEST(a_search_looks_at_the_files_that_ripgrep_looks_at) {
  uint64_t seed = setting("SEARCH_SEED", 1);
  uint64_t trees = setting("SEARCH_CASES", CASES) / SEARCHES;
  assert_int_equal(setenv("RIPGREP_CONFIG_PATH", "", 1), 0);
  for (uint64_t i = 0; i < trees; i++)
    search_tree(tree, seed + i);
}
