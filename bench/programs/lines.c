/* lines COUNT: prints this many lines of 60 bytes and a line ending, each with its number, as fast
   as possible, in pieces of 4096 bytes, as stdio writes to a pipe. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIGITS = 10, LINE_SIZE = 61, PIECE_SIZE = 4096 };

static void count_up(char line[DIGITS]) {
  for (int i = DIGITS - 1; i >= 0 && ++line[i] > '9'; i--)
    line[i] = '0';
}

static int write_all(const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t n = write(STDOUT_FILENO, bytes, length);
    if (n < 0)
      return -1;
    bytes += n;
    length -= (size_t)n;
  }
  return 0;
}

int main(int argc, char **argv) {
  char line[LINE_SIZE + 1] = "0000000000 a line as a compiler might print it, sixty bytes.\n";
  char piece[PIECE_SIZE + LINE_SIZE];
  size_t filled = 0;
  long count = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
  for (long i = 0; i < count; i++) {
    count_up(line);
    memcpy(piece + filled, line, LINE_SIZE);
    filled += LINE_SIZE;
    if (filled < PIECE_SIZE)
      continue;
    if (write_all(piece, PIECE_SIZE) != 0)
      return 1;
    filled -= PIECE_SIZE;
    memcpy(piece, piece + PIECE_SIZE, filled);
  }
  return write_all(piece, filled) == 0 ? 0 : 1;
}
