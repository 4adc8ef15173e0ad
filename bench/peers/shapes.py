"""Which single operators are timed: those that the evaluation models spend their time in."""

from single_operators import attention, batched_gemm, conv, gelu, gemm, layer_norm, nothing, silu, softmax

# Of a call, and of copying 1.6 MB in and out.
OVERHEADS = (nothing(8), nothing(1, 64, 80, 80))


def depthwise(channels, kernel, size, layers, stride=1):
    return conv(channels, channels, kernel, size, layers, stride=stride, group=channels)


_SHAPES = (
    # DistilBERT, CLIP, Swin's four stages, Whisper; a square one.
    gemm(128, 3072, 768, layers=2),
    gemm(128, 768, 768, layers=4),
    gemm(77, 2048, 512, layers=4),
    gemm(4096, 384, 96, layers=2),
    gemm(3136, 96, 96, layers=8),
    gemm(1024, 768, 192, layers=2),
    gemm(256, 1536, 384, layers=4),
    gemm(64, 3072, 768, layers=2),
    gemm(1500, 1536, 384, layers=2),
    gemm(1500, 384, 384, layers=2),
    gemm(512, 512, 512, layers=4),
    # A decoder: the prompt, then token by token, with more weights than the nearer caches hold.
    gemm(4, 1536, 384, layers=16),
    gemm(1, 1536, 384, layers=16),
    gemm(1, 384, 384, layers=32),
    batched_gemm(64, 49, 32, 49, layers=8),
    gemm(128, 3072, 768, layers=2, gelu=True),
    # YOLOv8n at 640 x 640; Swin's patches; Whisper's sounds.
    conv(3, 16, 3, (640, 640), layers=1, stride=2, pooled=True),
    conv(3, 32, 3, (224, 224), layers=1, stride=2, pooled=True),
    conv(3, 96, 4, (256, 256), layers=1, stride=4, pooled=True),
    conv(16, 32, 3, (320, 320), layers=4, stride=2),
    conv(32, 64, 3, (160, 160), layers=4, stride=2),
    conv(64, 128, 3, (80, 80), layers=4, stride=2),
    conv(128, 256, 3, (40, 40), layers=4, stride=2),
    conv(16, 16, 3, (160, 160), layers=4),
    conv(32, 32, 3, (80, 80), layers=4),
    conv(64, 64, 3, (40, 40), layers=4),
    conv(64, 64, 3, (80, 80), layers=4),
    conv(80, 80, 3, (80, 80), layers=4),
    conv(128, 128, 3, (20, 20), layers=4),
    conv(128, 128, 3, (40, 40), layers=4),
    conv(256, 256, 3, (20, 20), layers=4),
    conv(16, 16, 3, (160, 160), layers=4, silu=True),
    conv(64, 64, 3, (40, 40), layers=4, silu=True),
    conv(80, 384, 3, (3000,), layers=1),
    conv(384, 384, 3, (3000,), layers=1, stride=2),
    # 1 x 1 of YOLOv8n, MobileNetV2 and text detection.
    conv(48, 32, 1, (160, 160), layers=4),
    conv(64, 64, 1, (80, 80), layers=4),
    conv(384, 128, 1, (40, 40), layers=4),
    conv(24, 144, 1, (56, 56), layers=4),
    conv(96, 576, 1, (14, 14), layers=8),
    conv(160, 960, 1, (7, 7), layers=8),
    conv(192, 192, 1, (46, 68), layers=4),
    depthwise(32, 3, (112, 112), layers=8),
    depthwise(144, 3, (56, 56), layers=8),
    depthwise(192, 3, (56, 56), layers=8),
    depthwise(192, 3, (28, 28), layers=16),
    depthwise(576, 3, (14, 14), layers=16),
    depthwise(960, 3, (7, 7), layers=32),
    depthwise(96, 3, (112, 112), layers=8, stride=2),
    depthwise(144, 3, (56, 56), layers=8, stride=2),
    depthwise(576, 3, (14, 14), layers=16, stride=2),
    depthwise(192, 5, (46, 68), layers=8),
    depthwise(384, 5, (23, 34), layers=8),
    depthwise(192, 5, (46, 68), layers=8, stride=2),
    conv(24, 24, 2, (184, 272), layers=1, stride=2, transposed=True, pooled=True),
    conv(128, 128, 2, (40, 40), layers=4, stride=2, transposed=True),
    # DistilBERT, CLIP, Whisper, Swin's windows.
    attention(1, 12, 128, 64, layers=4),
    attention(1, 8, 77, 64, layers=8),
    attention(1, 6, 1500, 64, layers=1),
    attention(64, 3, 64, 32, layers=4),
    softmax(12, 128, 128, layers=8),
    softmax(192, 64, 64, layers=8),
    softmax(6, 1500, 1500, layers=2),
    layer_norm(128, 768, layers=16),
    layer_norm(1500, 384, layers=8),
    layer_norm(4096, 96, layers=8),
    gelu(128, 3072, layers=8),
    gelu(1500, 1536, layers=4),
    silu(1, 16, 320, 320, layers=4),
    silu(1, 64, 80, 80, layers=8),
)
SHAPES = {shape.name: shape for shape in _SHAPES}
assert len(SHAPES) == len(_SHAPES), "names differ"
