"""Text on a picture: drawing it, finding it, reading it (PP-OCR detection and recognition).

Pictures are uint8[height, width, 3], red first; the models want blue first.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
READ_HEIGHT, READ_MIN_WIDTH = 48, 320
FIND_SHORT_SIDE, FIND_MULTIPLE = 736, 32
FIND_CELL, FIND_BOX, FIND_GROW = 0.3, 0.5, 1.6  # thresholds of a cell and a box, growth of a box


def draw_line(text, size=40, margin=12):
    """Black `text` on white, `margin` pixels around it."""
    font = ImageFont.truetype(FONT, size)
    left, top, right, bottom = font.getbbox(text)
    picture = Image.new("RGB", (right - left + 2 * margin, bottom - top + 2 * margin), "white")
    ImageDraw.Draw(picture).text((margin - left, margin - top), text, font=font, fill="black")
    return np.asarray(picture)


def draw_page(lines, width=960, height=640):
    """A page: each of `lines` is (x, y, size, text)."""
    picture = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)
    for x, y, size, text in lines:
        draw.text((x, y), text, font=ImageFont.truetype(FONT, size), fill="black")
    return np.asarray(picture)


def _resized(picture, width, height):
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR))


def _normalised(picture):
    """f32[1,3,h,w] in [-1, 1], blue first."""
    planes = picture[:, :, ::-1].astype(np.float32).transpose(2, 0, 1)[None]
    return (planes / np.float32(255) - np.float32(0.5)) / np.float32(0.5)


def reading_input(picture):
    """Recognition's input for a picture of one line."""
    height, width = picture.shape[:2]
    width = int(np.ceil(READ_HEIGHT * width / height))
    planes = _normalised(_resized(picture, width, READ_HEIGHT))
    right = max(0, READ_MIN_WIDTH - width)
    return {"x": np.pad(planes, ((0, 0), (0, 0), (0, 0), (0, right)))}


def characters(metadata):
    """What recognition's classes stand for; class 0 is the blank."""
    return ["", *metadata["character"].splitlines(), " "]


def decode(probabilities, table):
    """The text of f32[1, steps, classes]: likeliest classes, repeats collapsed, blanks dropped."""
    classes = probabilities[0].argmax(axis=1)
    kept = classes[np.append(True, classes[1:] != classes[:-1])]
    return "".join(table[c] for c in kept).strip()


def finding_input(picture):
    """Detection's input for a page, and the (x, y) scale of its map back to the page."""
    height, width = picture.shape[:2]
    scale = FIND_SHORT_SIDE / min(height, width)
    new_height, new_width = (
        max(FIND_MULTIPLE, round(side * scale / FIND_MULTIPLE) * FIND_MULTIPLE) for side in (height, width))
    planes = _normalised(_resized(picture, new_width, new_height))
    return {"x": planes}, (width / new_width, height / new_height)


def _components(on):
    """Lists of cells (row, column) that touch, of a bool map."""
    todo = set(zip(*map(list, np.nonzero(on))))
    while todo:
        stack, cells = [todo.pop()], []
        while stack:
            row, column = stack.pop()
            cells.append((row, column))
            for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if cell in todo:
                    todo.remove(cell)
                    stack.append(cell)
        yield cells


def boxes(probability, scale, picture):
    """Boxes (left, top, right, bottom) on the page, top to bottom, of detection's map f32[1,1,h,w]."""
    cells = probability[0, 0]
    found = []
    for component in _components(cells > FIND_CELL):
        rows, columns = np.array(component).T
        top, bottom, left, right = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
        width, height = right - left, bottom - top
        if min(width, height) < 3 or cells[top:bottom, left:right].mean() < FIND_BOX:
            continue
        grow = FIND_GROW * width * height / (2 * (width + height))
        limits = picture.shape[1], picture.shape[0]
        corners = (left - grow, top - grow, right + grow, bottom + grow)
        found.append(tuple(int(np.clip(round(c * scale[i % 2]), 0, limits[i % 2])) for i, c in enumerate(corners)))
    return sorted(found, key=lambda box: (box[1], box[0]))


def crop(picture, box):
    left, top, right, bottom = box
    return picture[top:bottom, left:right]
