"""Nanbeige 4.2, which transformers does not have: its Llama, whose layers every token goes through several times.

Importing this makes AutoConfig and AutoModelForCausalLM know the type "nanbeige". No pass keeps keys and values for a
later call: texts are computed whole.
"""
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, LlamaModel
from transformers.modeling_outputs import BaseModelOutputWithPast


class NanbeigeConfig(LlamaConfig):
    model_type = "nanbeige"
    num_loops: int = 2
    skip_loop_final_norm: bool = False


class NanbeigeModel(LlamaModel):
    config_class = NanbeigeConfig

    def forward(self, input_ids, **unused):
        x = self.embed_tokens(input_ids)
        at = torch.arange(x.shape[1])[None]
        turns = self.rotary_emb(x, at)
        later = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=x.dtype).triu(1)[None, None]
        for again in reversed(range(self.config.num_loops)):
            for layer in self.layers:
                x = layer(x, attention_mask=later, position_ids=at, position_embeddings=turns)
            if again and not self.config.skip_loop_final_norm:
                x = self.norm(x)
        return BaseModelOutputWithPast(last_hidden_state=self.norm(x))


class NanbeigeForCausalLM(LlamaForCausalLM):
    config_class = NanbeigeConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = NanbeigeModel(config)
        self.post_init()


AutoConfig.register("nanbeige", NanbeigeConfig)
AutoModelForCausalLM.register(NanbeigeConfig, NanbeigeForCausalLM)
