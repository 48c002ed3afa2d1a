/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h - writes a picture as SVG, element by element; lengths are pixels. Errors of writing are kept
 * by the file and told by svg_close. */
#ifndef DEMO_SVG_H
#define DEMO_SVG_H

#include <kvstore/kvstore.h>

#include <stdio.h>

typedef struct svg {
    FILE *file;
    const char *path;
} svg_t;

/* `path` must live until svg_close. ERR_IO: the file can't be made. */
kvs_status_t svg_open(const char *path, int width, int height, svg_t *ret_svg);
/* ERR_IO: something couldn't be written; the file is incomplete. */
kvs_status_t svg_close(svg_t *svg);

void svg_rectangle(svg_t *svg, double x, double y, double width, double height, const char *fill,
                   const char *stroke);
/* Through `n` points, given as x, y, x, y, … */
void svg_line(svg_t *svg, const double *points, size_t n, const char *stroke, double width);
typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor_t;
void svg_text(svg_t *svg, double x, double y, int size, svg_anchor_t anchor, const char *fill,
              const char *format, ...) KVS_PRINTF(7, 8);
/* A picture of bytes, 0 black to 255 white, each pixel a square of side `scale`. */
void svg_grey_image(svg_t *svg, double x, double y, double scale, const uint8_t *pixels,
                    size_t rows, size_t columns);

#endif
