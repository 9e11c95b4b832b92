#include "client/steps/remote_archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "client/exit_code.h"

#define PLACES "for d in \"$2\" \"${TMPDIR:-/tmp}\" /var/tmp . /dev/shm; do\n"

/* Prints "+" for GNU tar, else "-", and the path of the archive. It is in the first directory with
   enough space, $3 in KiB or that of $4, or in the one with the most. /dev/shm is memory, and
   therefore the last one. A directory inside of $4 is only used if no other one has enough. */
static const char place_script[] =
    "command -v tar >/dev/null || exit 127\n"
    "umask 077; p= s= most=-2 need=$3\n"
    "if [ -n \"$4\" ]; then\n"
    "  s=$(cd -- \"$4\" && pwd -P) || exit 1\n"
    "  need=$(du -sk \"$s\" 2>/dev/null | { read -r n _; echo \"$n\"; })\n"
    "fi\n" PLACES "  [ -d \"$d\" ] && [ -w \"$d\" ] && d=$(cd -- \"$d\" && pwd -P) || continue\n"
    "  f=$(df -Pk \"$d\" 2>/dev/null | { read -r _; read -r _ _ _ f _; echo \"$f\"; })\n"
    "  case $f in ''|*[!0-9]*) f=0;; esac\n"
    "  case $d/ in \"${s:-//}\"/*) f=$((f - 1)) fits=0;; *) fits=$((f > ${need:-0}));; esac\n"
    "  [ \"$f\" -le \"$most\" ] || { p=$d; most=$f; }\n"
    "  [ $fits = 0 ] || { p=$d; break; }\n"
    "done\n"
    "[ -n \"$p\" ] || { echo 'no directory to write an archive to' >&2; exit 1; }\n"
    "p=${p%/}/$1; true >\"$p\" || exit 1\n"
    "case $(tar --version 2>/dev/null) in *GNU*) p=+$p;; *) p=-$p;; esac\n"
    "echo \"$p\"";

int remote_archive_begin(struct remote_archive *self, struct file_steps *steps, const char *hidden,
                         const char *directory, uint64_t need, const char *packed) {
  char text[32];
  *self = (struct remote_archive){
      .steps = steps, .hidden = hidden, .directory = memory_copy(directory, strlen(directory))};
  (void)snprintf(self->name, sizeof self->name, "%s.tar", hidden);
  (void)snprintf(text, sizeof text, "%llu", (unsigned long long)need);
  int code = transfer_run(
      steps, WORDS("sh", "-c", place_script, "sh", self->name, directory, text, packed));
  const char *content = steps->answer.content;
  if (code == EXIT_NOT_FOUND || code == EXIT_NOT_EXECUTABLE) {
    free(self->directory);
    return 0;
  }
  file_steps_complain(steps);
  if (code != 0)
    return transfer_code(code);
  if (content == NULL) {
    file_steps_error(steps, "cannot make an archive: another client took the result");
    return EXIT_CLIENT;
  }
  self->is_gnu = content[0] == '+';
  self->path = memory_copy(content + 1, strcspn(content + 1, "\n"));
  return 0;
}

/* Exits with the code of tar, or with WRITE_FAILED. The archive goes through cat(1), because GNU
   tar does not name a full disk. */
#define WRITE_FAILED 120
static const char pack_script[] =
    "s=$(cd -- \"$2\" && pwd -P) || exit 120\n"
    "case $1 in \"${s%/}\"/*) x=--exclude=$3;; *) x=;; esac\n"
    "c=$({ { tar -cf - ${x:+\"$x\"} -C \"$s\" .; echo $? >&3; } | cat >\"$1\"; } 3>&1) ||\n"
    "  exit 120\n"
    "exit \"$c\"";

/* Code 1 of GNU tar is a warning: a file changed while it was read. After any other code, an entry
   is missing, or the archive is incomplete, which tar_unpack notices. */
int remote_archive_pack(struct remote_archive *self, const char *from, bool *has_left_out) {
  const int code =
      transfer_run(self->steps, WORDS("sh", "-c", pack_script, "sh", self->path, from, self->name));
  if (code < 0 || code >= WRITE_FAILED) {
    file_steps_complain(self->steps);
    return transfer_code(code);
  }
  *has_left_out |= code > 0 && !(code == 1 && self->is_gnu);
  file_steps_show_notes(self->steps);
  return 0;
}

/* A write to a full disk names the reason, which GNU tar does not. If the disk is not full, GNU tar
   has left out the entries that it could not write, and the other ones are kept. */
static const char unpack_script[] =
    "c= keeps=; if [ -d \"$3\" ]; then d=$3; else d=$2; mkdir -p -- \"$d\" || exit; fi\n"
    "tar -xpof \"$1\" -C \"$d\" || {\n"
    "  c=$? f=$d/$4; head -c 65536 /dev/zero >\"$f\" && keeps=$5; rm -f -- \"$f\"\n"
    "  [ -n \"$keeps\" ] || exit $c\n"
    "}\n"
    "[ \"$d\" = \"$3\" ] || mv -- \"$d\" \"$3\" || exit\n"
    "exit ${c:-0}";

static char *hidden_path(const struct remote_archive *self) {
  struct buffer path = {0};
  buffer_add_string(&path, self->directory);
  buffer_add(&path, self->hidden, strlen(self->hidden) + 1);
  return path.bytes;
}

int remote_archive_unpack(struct remote_archive *self, const char *to) {
  char *hidden = hidden_path(self);
  const int code =
      transfer_run_loudly(self->steps, WORDS("sh", "-c", unpack_script, "sh", self->path, hidden,
                                             to, self->name, self->is_gnu ? "+" : ""));
  free(hidden);
  self->is_unpacked = true;
  return code;
}

static const char remove_script[] = PLACES "  rm -f -- \"$d/$1\"\ndone\nrm -rf -- \"$3\"";

void remote_archive_end(struct remote_archive *self) {
  char *hidden = hidden_path(self);
  const char *path = self->path != NULL ? self->path : self->name;
  transfer_clean_up(self->steps,
                    WORDS("sh", "-c", remove_script, "sh", self->name, self->directory, hidden),
                    WORDS(path, hidden), self->is_unpacked ? 2 : 1);
  free(hidden);
  free(self->directory);
  free(self->path);
}
