/* SPDX-License-Identifier: Apache-2.0 */
/* near.c - edit distance with swaps of neighbours (optimal string alignment), on three rows. */
#include "near.h"

#include <stdio.h>
#include <string.h>

#define MAX_LEN 64

static int min3(int a, int b, int c)
{
    int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

int kvsi_near_distance(const char *a, const char *b)
{
    int rows[3][MAX_LEN + 1];
    size_t len_a = strnlen(a, MAX_LEN + 1), len_b = strnlen(b, MAX_LEN + 1);

    if (len_a > MAX_LEN || len_b > MAX_LEN) {
        return strcmp(a, b) == 0 ? 0 : MAX_LEN;
    }
    for (size_t j = 0; j <= len_b; j++) {
        rows[0][j] = (int)j;
    }
    for (size_t i = 1; i <= len_a; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = (int)i;
        for (size_t j = 1; j <= len_b; j++) {
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above2[j - 2] + 1 < row[j]) {
                row[j] = above2[j - 2] + 1;
            }
        }
    }
    return rows[len_a % 3][len_b];
}

void kvsi_near_offer(kvsi_near_t *near, const char *name)
{
    int distance = kvsi_near_distance(near->wanted, name);
    int limit = strlen(near->wanted) < 4 ? 1 : 2 + (strlen(near->wanted) > 10);
    char piece[sizeof(near->text)];
    size_t used;

    if (distance > limit || distance > near->best) {
        return;
    }
    if (distance < near->best) {
        near->best = distance;
        near->text[0] = '\0';
    }
    used = strlen(near->text);
    snprintf(piece, sizeof(piece), "%s\"%s\"", used == 0 ? "; did you mean " : " or ", name);
    if (used + strlen(piece) < sizeof(near->text)) {
        strcpy(near->text + used, piece);
    }
}

const char *kvsi_near_text(const kvsi_near_t *near)
{
    return near->text;
}
