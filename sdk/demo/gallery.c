/* SPDX-License-Identifier: Apache-2.0 */
/* gallery.c - a grid of images, each with one or two lines of text below. */
#include "gallery.h"

#include "svg.h"

enum {
    N_COLUMNS = 10,
    N_ROWS = 6,
    MARGIN = 16,
    HEADING = 40,
    SIDE = 84, /* of an image */
    CELL_WIDTH = SIDE + 16,
    CELL_HEIGHT = SIDE + 44
};

#define WRONG_COLOUR "#d01010"
#define TEXT_COLOUR  "#333333"

static void draw_image(svg_t *svg, double x, double y, const dataset_t *set, size_t image,
                       uint8_t predicted)
{
    size_t longer = set->rows > set->columns ? set->rows : set->columns;
    uint8_t label = set->labels[image];
    int wrong = predicted != label;

    if (wrong) {
        svg_rectangle(svg, x - 2, y - 2, SIDE + 4, SIDE + 4, "white", WRONG_COLOUR);
    }
    svg_grey_image(svg, x, y, (double)SIDE / (double)longer,
                   set->pixels + image * set->rows * set->columns, set->rows, set->columns);
    svg_text(svg, x + SIDE / 2.0, y + SIDE + 16, 12, SVG_MIDDLE, wrong ? WRONG_COLOUR : TEXT_COLOUR,
             "%s", data_class_names[predicted]);
    if (wrong) {
        svg_text(svg, x + SIDE / 2.0, y + SIDE + 30, 11, SVG_MIDDLE, TEXT_COLOUR, "not %s",
                 data_class_names[label]);
    }
}

kvs_status_t gallery_write(const char *path, const dataset_t *set, const uint8_t *predicted)
{
    size_t n = set->n_images < N_COLUMNS * N_ROWS ? set->n_images : N_COLUMNS * N_ROWS;
    size_t n_wrong = 0;
    svg_t svg;
    kvs_status_t status = svg_open(path, 2 * MARGIN + N_COLUMNS * CELL_WIDTH,
                                   2 * MARGIN + HEADING + N_ROWS * CELL_HEIGHT, &svg);

    if (status != KVS_OK) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        size_t row = i / N_COLUMNS, column = i % N_COLUMNS;

        draw_image(&svg, (double)(MARGIN + column * CELL_WIDTH),
                   (double)(MARGIN + HEADING + row * CELL_HEIGHT), set, i, predicted[i]);
        n_wrong += predicted[i] != set->labels[i];
    }
    svg_text(&svg, MARGIN, MARGIN + 16, 18, SVG_START, TEXT_COLOUR,
             "The first %zu test images and what they are taken for; %zu wrong, in red", n,
             n_wrong);
    return svg_close(&svg);
}
