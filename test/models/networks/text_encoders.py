"""transformers' text encoders and encoder-decoders, each with the attention mask that its data
brings."""

from __future__ import annotations

from zoo import CLASS

from .network import (
    IDS,
    MASK,
    MASKED_TEXT,
    SOURCE,
    SOURCE_MASK,
    TARGET,
    TARGET_LABELS,
    Network,
    logits_of,
)
from .tiny import VOCABULARY, tiny

QUICK = {
    "BertForMaskedLM",
    "RobertaForMaskedLM",
    "T5ForConditionalGeneration",
    "DebertaV2ForMaskedLM",
}
MASKED = """
    AlbertForMaskedLM BertForMaskedLM BigBirdForMaskedLM ConvBertForMaskedLM DebertaForMaskedLM
    DebertaV2ForMaskedLM DistilBertForMaskedLM ElectraForMaskedLM EsmForMaskedLM EuroBertForMaskedLM
    FlaubertWithLMHeadModel FunnelForMaskedLM IBertForMaskedLM LayoutLMForMaskedLM
    LongformerForMaskedLM MobileBertForMaskedLM ModernBertForMaskedLM MPNetForMaskedLM
    NomicBertForMaskedLM NystromformerForMaskedLM RemBertForMaskedLM RobertaForMaskedLM
    RobertaPreLayerNormForMaskedLM RoFormerForMaskedLM SqueezeBertForMaskedLM
    XLMRobertaXLForMaskedLM XmodForMaskedLM YosoForMaskedLM
""".split()
CLASSIFIERS = """
    AlbertForSequenceClassification BertForSequenceClassification DebertaV2ForSequenceClassification
    GPT2ForSequenceClassification LlamaForSequenceClassification ModernBertForSequenceClassification
    RobertaForSequenceClassification XLNetForSequenceClassification
""".split()
TAGGERS = """
    BertForTokenClassification DistilBertForTokenClassification ElectraForTokenClassification
    RobertaForTokenClassification BloomForTokenClassification GPT2ForTokenClassification
""".split()
SEQ2SEQ = """
    BartForConditionalGeneration BigBirdPegasusForConditionalGeneration
    BlenderbotForConditionalGeneration BlenderbotSmallForConditionalGeneration
    LongT5ForConditionalGeneration M2M100ForConditionalGeneration MarianMTModel
    MBartForConditionalGeneration MT5ForConditionalGeneration MvpForConditionalGeneration
    NllbMoeForConditionalGeneration PegasusForConditionalGeneration PegasusXForConditionalGeneration
    PLBartForConditionalGeneration ProphetNetForConditionalGeneration
    SwitchTransformersForConditionalGeneration T5ForConditionalGeneration
    T5GemmaForConditionalGeneration UMT5ForConditionalGeneration
""".split()
OWN = {
    "RemBertForMaskedLM": dict(input_embedding_size=32, output_embedding_size=32),
    "MobileBertForMaskedLM": dict(intra_bottleneck_size=32),
    "FunnelForMaskedLM": dict(block_sizes=[1, 1], num_decoder_layers=1),
    "SqueezeBertForMaskedLM": dict(embedding_size=32),
    "SqueezeBertForSequenceClassification": dict(embedding_size=32),
    "BigBirdForMaskedLM": dict(attention_type="original_full"),
    "BigBirdPegasusForConditionalGeneration": dict(attention_type="original_full"),
    "LongformerForMaskedLM": dict(attention_window=4),
    "XmodForMaskedLM": dict(default_language="en_XX"),
    "EsmForMaskedLM": dict(mask_token_id=2),
}


def make(name, own):
    def build():
        import transformers

        base = getattr(transformers, name)
        return base(tiny(base.config_class, **own))

    return build


def encoder(name, fields, **own):
    return Network(
        name.replace("For", "_").replace("WithLMHeadModel", "_MaskedLM"),
        "transformers",
        make(name, OWN.get(name, {}) | own),
        fields,
        logits_of,
        quick=name in QUICK,
    )


def translate(module, **inputs):
    return module(**inputs, use_cache=False).logits


def networks():
    yield from (encoder(name, MASKED_TEXT) for name in MASKED)
    yield from (encoder(name, MASKED_TEXT, num_labels=VOCABULARY) for name in TAGGERS)
    yield from (
        encoder(name, {"input_ids": IDS, "attention_mask": MASK, "labels": CLASS})
        for name in CLASSIFIERS
    )
    fields = {
        "input_ids": SOURCE,
        "attention_mask": SOURCE_MASK,
        "decoder_input_ids": TARGET,
        "labels": TARGET_LABELS,
    }
    for name in SEQ2SEQ:
        short = name.removesuffix("ForConditionalGeneration").removesuffix("MTModel")
        yield Network(
            f"{short}_seq2seq",
            "transformers",
            make(name, OWN.get(name, {})),
            fields,
            translate,
            quick=name in QUICK,
        )
